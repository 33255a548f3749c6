"""The security of one server, made of its configuration."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import structlog

from kvtier.server.config import ConfigError
from kvtier.server.config.addresses import is_local
from kvtier.server.config.security import AuthConfig, TlsConfig
from kvtier.server.security.authentication import Authentication
from kvtier.server.security.failures import Failures
from kvtier.server.security.grants import Grants
from kvtier.server.security.guard import SecurityGuard
from kvtier.server.security.scopes import Known
from kvtier.server.security.tls import MakeCredentials, ServerTls
from kvtier.server.security.tokens import Tokens, load_tokens
from kvtier.server.security.watched import SecretFileError, Watched
from kvtier.server.services.calls import Guard
from kvtier.wire.certificates import CertificateError

# Twice this, and a moment, is how long a change of a file takes to show.
_LOOK_SECONDS = 0.2

_log = structlog.get_logger(__name__)


class Secured(Protocol):
    """The settings of a server that matter here."""

    @property
    def listen(self) -> str:
        """Where it listens."""
        ...

    @property
    def insecure(self) -> bool:
        """Whether it may be reached from elsewhere without TLS."""
        ...

    @property
    def tls(self) -> TlsConfig | None:
        """The certificates."""
        ...

    @property
    def auth(self) -> AuthConfig | None:
        """Who may do what."""
        ...


class Security:
    """TLS, and who may do what; both go by their files as these change.

    Args:
        config: The settings.

    Attributes:
        credentials: Makes what an address is served with; None for plaintext.
        failures: Counts the calls that were refused.

    Raises:
        ConfigError: When a file cannot be used; one line that names it and says why.
    """

    def __init__(self, config: Secured) -> None:
        self._config = config
        self.failures = Failures()
        auth = config.auth or AuthConfig()
        with _told_as_settings():
            self._tls = ServerTls(config.tls) if config.tls else None
            self._tokens = _watch_tokens(auth.tokens) if auth.tokens else None
        self.credentials: MakeCredentials | None = self._tls.credentials if self._tls else None
        self._grants = Grants(auth.grants)
        self._guard: SecurityGuard | None = None

    def guards(self, known: Known) -> Sequence[Guard]:
        """Return what is around every call: nothing where nobody needs an identity.

        Args:
            known: Tells what namespaces there are.
        """
        anchors = self._tls.anchors if self._tls else None
        if anchors is None and self._tokens is None:
            return ()
        authentication = Authentication(anchors, self._tokens)
        self._guard = SecurityGuard(authentication, self._grants, known, self.failures)
        return (self._guard,)

    def expiries(self) -> dict[str, float]:
        """Return when the first certificate of each file ends, in seconds since the epoch.

        By `cert` and `client_ca`, as the settings call the files.
        """
        return self._tls.expiries() if self._tls else {}

    async def watch(self) -> None:
        """Follow the files, and end the calls of those who are not known any more."""
        self._warn()
        while self._tls or self._tokens:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await asyncio.to_thread(self._look)
                if self._guard is not None:
                    self._guard.check_again()
            except Exception:  # noqa: BLE001 - whoever was revoked must not stay for it
                _log.exception("callers could not be checked; trying again")

    def _look(self) -> None:
        if self._tls is not None:
            self._tls.look()
        if self._tokens is not None:
            self._tokens.look()

    def _warn(self) -> None:
        if self._config.insecure and not is_local(self._config.listen):
            _log.warning(
                "insecure: whoever reaches this address can read what is sent, there is no TLS",
                listen=self._config.listen,
                authenticated=self._guard is not None,
            )


def _watch_tokens(path: Path) -> Watched[Tokens]:
    return Watched("tokens", [path], lambda: load_tokens(path), SecretFileError)


@contextmanager
def _told_as_settings() -> Iterator[None]:
    try:
        yield
    except CertificateError as error:
        raise ConfigError(f"tls: {error}") from None
    except SecretFileError as error:
        raise ConfigError(f"auth.tokens: {error}") from None
