"""The options that say who the caller is, and whom to trust."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kvtier.cli.exit import CommandError, ExitCode

if TYPE_CHECKING:
    from kvtier.wire.credentials import Credentials


@dataclass(frozen=True)
class CredentialOptions:
    """What the options of TLS and identity say.

    Attributes:
        tls: Whether to use TLS, also when nothing else says so.
        cacert: The authorities of the nodes' certificates.
        cert: The certificate to show.
        key: Its private key.
        token_file: A file with a bearer token.
        tls_server_name: The name that a node's certificate must have.
    """

    tls: bool = False
    cacert: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    token_file: Path | None = None
    tls_server_name: str = ""

    def load(self) -> "Credentials | None":
        """Read the files; return None for plaintext and nobody.

        Raises:
            CommandError: When one cannot be used, or options contradict each other.
        """
        if self == CredentialOptions():
            return None
        from kvtier.wire.credentials import (  # noqa: PLC0415 - keeps gRPC out of `--help`
            Credentials,
            CredentialsError,
        )

        try:
            found = Credentials(
                tls=self.tls,
                ca=self.cacert,
                cert=self.cert,
                key=self.key,
                token_file=self.token_file,
                server_name=self.tls_server_name,
            )
        except CredentialsError as error:
            raise _refused(str(error)) from None
        if self.tls_server_name and not found.tls:
            raise _refused("--tls-server-name does nothing without TLS; add --tls or --cacert")
        return found


def _refused(what: str) -> CommandError:
    return CommandError("kvtier", what, code=ExitCode.USAGE)
