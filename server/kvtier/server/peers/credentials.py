"""The credentials of a configuration, towards other nodes."""

import structlog

from kvtier.server.config import ConfigError
from kvtier.server.config.security import ConnectConfig
from kvtier.wire.credentials import Credentials, CredentialsError

_log = structlog.get_logger(__name__)


def _tell(why: str) -> None:
    _log.warning("credentials towards other nodes cannot be renewed", problem=why)


def credentials_of(config: ConnectConfig | None) -> Credentials | None:
    """Return what a configuration says of TLS and identity; None for plaintext.

    Raises:
        ConfigError: When a file cannot be used.
    """
    if config is None:
        return None
    try:
        return Credentials(
            tls=True,
            ca=config.ca,
            cert=config.cert,
            key=config.key,
            token_file=config.token,
            tell=_tell,
        )
    except CredentialsError as error:
        raise ConfigError(f"connect: {error}") from None


def expiries_of(config: ConnectConfig | None, credentials: Credentials | None) -> dict[str, float]:
    """Return when the files end that certificates towards other nodes come from.

    By connect_cert and connect_ca, in seconds since 1970.
    """
    if config is None or credentials is None:
        return {}
    ends = credentials.identity().ends
    files = (("connect_cert", config.cert), ("connect_ca", config.ca))
    return {name: ends[file].timestamp() for name, file in files if file and file in ends}
