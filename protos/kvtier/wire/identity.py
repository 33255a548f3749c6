"""An identity as it is read from files: TLS, a certificate, a bearer token."""

import ssl
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import grpc
import grpc.aio

from kvtier.wire.bearer import BearerChannel, is_this_host, is_token
from kvtier.wire.stamps import Stamp, stamp_of


class CredentialsError(Exception):
    """Credentials cannot be used; the message is one line: which file, what is wrong with it."""


class Identity(NamedTuple):
    """What is shown to the other side, and whom it is trusted from; compare with `is`.

    Attributes:
        tls: The certificates of channels; None for plaintext.
        token: The bearer token of every call, if there is one.
        server_name: The name that the other side's certificate must have, in place of the host's.
        ends: When the certificates of a file end, by the file.
    """

    tls: grpc.ChannelCredentials | None
    token: str | None
    server_name: str
    ends: Mapping[Path, datetime]

    def open(self, target: str, options: Sequence[tuple[str, str | int]]) -> grpc.aio.Channel:
        """Return a channel over which every call shows this identity.

        Raises:
            CredentialsError: When a token would go in plaintext to another host.
        """
        self.check(target)
        if self.tls is None:
            channel = grpc.aio.insecure_channel(target, options=options)
        else:
            name = self.server_name
            named = [("grpc.ssl_target_name_override", name)] if name else []
            channel = grpc.aio.secure_channel(target, self.tls, options=[*options, *named])
        return channel if self.token is None else BearerChannel(channel, self.token)

    def check(self, target: str) -> None:
        """Raise CredentialsError when a token would go in plaintext to another host."""
        if self.token is not None and self.tls is None and not is_this_host(target):
            raise CredentialsError(
                f"the token is not sent to {target}, since that is another host and there is no "
                "TLS; use TLS, with the authorities of the node's certificate or the system's"
            )


class IdentitySource(NamedTuple):
    """Where an identity comes from, as `Credentials` takes it."""

    tls: bool
    ca: Path | None
    cert: Path | None
    key: Path | None
    token_file: Path | None
    token: str | None
    server_name: str

    def stamps(self) -> list[Stamp]:
        """Return what tells whether the files changed."""
        files = (self.ca, self.cert, self.key, self.token_file)
        return [stamp_of(each) for each in files if each is not None]

    def read(self) -> Identity:
        """Read the files.

        Raises:
            CredentialsError: When one cannot be used.
        """
        token = self.token if self.token_file is None else _read_token(self.token_file)
        if token is not None and not is_token(token):
            where = self.token_file or "the token"
            raise CredentialsError(f"{where} holds no bearer token: one line, without spaces")
        if not self.tls:
            return Identity(None, token, "", {})
        roots, pair, ends = self._certificates()
        tls = grpc.ssl_channel_credentials(roots, *pair)
        return Identity(tls, token, self.server_name, ends)

    def _certificates(self) -> tuple[bytes, tuple[bytes, bytes] | tuple[()], dict[Path, datetime]]:
        """Return the authorities, the key with its certificate, and when what was read ends."""
        if self.ca is None and self.cert is None:
            return _system_authorities(), (), {}
        # It costs as much as all the rest, and most clients need none of it.
        from kvtier.wire import certificates  # noqa: PLC0415

        pair: tuple[bytes, bytes] | tuple[()] = ()
        ends = {}
        try:
            roots = certificates.load_authorities(self.ca) if self.ca else _system_authorities()
            if self.ca is not None:
                found = certificates.parse(roots, self.ca)
                ends[self.ca] = max(each.not_valid_after_utc for each in found)
            if self.cert is not None and self.key is not None:
                chain, key, certificate = certificates.load_key_pair(self.cert, self.key)
                pair, ends[self.cert] = (key, chain), certificate.not_valid_after_utc
        except certificates.CertificateError as error:
            raise CredentialsError(str(error)) from None
        return roots, pair, ends


def _read_token(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise CredentialsError(f"{path} cannot be read: {why}") from None
    except UnicodeDecodeError:
        raise CredentialsError(f"{path} holds no bearer token: it is not text") from None


def _system_authorities() -> bytes:
    # gRPC would take a list of its own, in which an authority of the house is missing.
    path = ssl.get_default_verify_paths().cafile
    try:
        return Path(path or "").read_bytes()
    except OSError:
        raise CredentialsError(
            "the system has no file of authorities; name one in SSL_CERT_FILE, or the authorities "
            "of the node's certificate"
        ) from None
