"""Callers whose certificate and token lie in files that a test changes."""

from collections.abc import Sequence
from pathlib import Path

from kvtier.client import Credentials
from tests.certificates import Authority, replace


class CallerFiles:
    """The files of one caller.

    Args:
        directory: Where they are.
        name: The caller's name, in its certificate.

    Attributes:
        authority: Who issued its certificate.
    """

    def __init__(self, directory: Path, name: str = "spiffe://cluster/engine") -> None:
        self.authority: Authority
        self._directory = directory
        self._name = name
        directory.mkdir(exist_ok=True)
        self.ca = directory / "ca.pem"
        self.cert, self.key = directory / "caller.pem", directory / "caller-key.pem"
        self.token = directory / "token"

    def trust(self, *authorities: Authority) -> None:
        """Trust these authorities alone."""
        trust(self.ca, authorities)

    def be_issued_by(self, authority: Authority) -> None:
        """Have a new certificate of an authority."""
        self.authority = authority
        authority.issue(uris=[self._name]).write(self._directory, "caller")

    def have_token(self, token: str) -> None:
        """Have another token."""
        replace(self.token, token.encode())

    def certificates(self) -> Credentials:
        """Return credentials of the certificate."""
        return Credentials(ca=self.ca, cert=self.cert, key=self.key)

    def settings(self) -> dict[str, str]:
        """Return the setting `connect` with the certificate."""
        return {"ca": str(self.ca), "cert": str(self.cert), "key": str(self.key)}


def trust(path: Path, authorities: Sequence[Authority]) -> None:
    """Write a file of authorities."""
    replace(path, b"".join(each.cert for each in authorities))
