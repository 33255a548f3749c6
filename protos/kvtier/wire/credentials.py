"""How one side shows who it is, and checks who the other is: TLS, a certificate, a bearer token."""

import logging
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from kvtier.wire.identity import CredentialsError, Identity, IdentitySource

__all__ = ["Credentials", "CredentialsError", "Identity"]

# A look at the files takes some system calls, for which not every call is to pay.
LOOK_SECONDS = 1.0

File = str | os.PathLike[str]


def _path(file: File | None) -> Path | None:
    return None if file is None else Path(file)


def _warn(why: str) -> None:
    logging.getLogger("kvtier.client.credentials").warning("%s", why)


class Credentials:
    """TLS and identity towards others. Files are read again when they change.

    With `tls`, `ca` or `cert` channels use TLS; with a token alone they are plaintext, and only to
    this host. Whoever opens a channel asks for `identity()` before each call, and opens a new one
    when that is another than before. Files that cannot be used any more change nothing: the last
    identity stays, and `problem` says what is wrong. Clients and threads may share it.

    Args:
        tls: Whether channels use TLS, also when nothing else says so.
        ca: The authorities of the other side's certificate, PEM; None for those of the system.
        cert: The certificate to show and those above it, PEM; with `key`.
        key: Its private key, PEM.
        token_file: A file with a bearer token.
        token: The bearer token itself.
        server_name: The name that the other side's certificate must have, in place of the host
            that is called.
        clock: Monotonic seconds.
        tell: Told, once, why files that changed cannot be used.

    Raises:
        CredentialsError: When a file is missing, unreadable or malformed, a key is not its
            certificate's, or a certificate is not valid now.
    """

    def __init__(
        self,
        *,
        tls: bool = False,
        ca: File | None = None,
        cert: File | None = None,
        key: File | None = None,
        token_file: File | None = None,
        token: str | None = None,
        server_name: str = "",
        clock: Callable[[], float] = time.monotonic,
        tell: Callable[[str], None] = _warn,
    ) -> None:
        if (cert is None) != (key is None):
            raise CredentialsError("a certificate and a key belong together; name both, or neither")
        if token is not None and token_file is not None:
            raise CredentialsError("token and token_file say the same; give one of them")
        self._source = IdentitySource(
            tls=tls or ca is not None or cert is not None,
            ca=_path(ca),
            cert=_path(cert),
            key=_path(key),
            token_file=_path(token_file),
            token=token,
            server_name=server_name,
        )
        self._clock = clock
        self._tell = tell
        self._stamps = self._seen = self._source.stamps()
        self._identity = self._source.read()
        self._look_again = clock() + LOOK_SECONDS
        self._told = ""

    @property
    def tls(self) -> bool:
        """Whether channels use TLS."""
        return self._source.tls

    @property
    def renewable(self) -> bool:
        """Whether who the caller is comes from files, so that another one may come."""
        return self._source.cert is not None or self._source.token_file is not None

    @property
    def problem(self) -> str:
        """What is wrong with the files now, in one line; empty when nothing is."""
        if self._told:
            return self._told
        now = datetime.now(UTC)
        for path, end in self._identity.ends.items():
            if end < now:
                return f"{path} expired at {end.isoformat()}; renew the certificate"
        return ""

    def named(self, server_name: str) -> "Credentials":
        """Return these credentials, for others whose certificates have this name.

        Raises:
            CredentialsError: As the constructor.
        """
        tls, ca, cert, key, token_file, token, _ = self._source
        return Credentials(
            tls=tls,
            ca=ca,
            cert=cert,
            key=key,
            token_file=token_file,
            token=token,
            server_name=server_name,
            clock=self._clock,
            tell=self._tell,
        )

    def identity(self) -> Identity:
        """Return what to show now; it looks at the files at most once a second."""
        now = self._clock()
        if now >= self._look_again:
            self._look_again = now + LOOK_SECONDS
            self._renew()
        return self._identity

    def _renew(self) -> None:
        stamps = self._source.stamps()
        before, self._seen = self._seen, stamps
        if stamps == self._stamps and not self._told:
            return
        try:
            identity = self._source.read()
        except CredentialsError as error:
            # Whoever writes one file after the other is not done yet.
            if stamps == before and str(error) != self._told:
                self._told = str(error)
                self._tell(f"{error}; what was read before stays in use")
        else:
            if stamps != self._stamps:
                self._stamps, self._identity = stamps, identity
            self._told = ""
