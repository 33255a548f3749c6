"""The files that say whose certificates callers have, and which of them are revoked."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from kvtier.server.security.revocation import Revoked, load_revoked
from kvtier.server.security.trust import Trust
from kvtier.server.security.watched import Watched
from kvtier.wire.certificates import CertificateError, load_authorities, parse


class _Authorities(NamedTuple):
    pem: bytes
    certificates: Sequence[x509.Certificate]


class Anchors:
    """Whom a server trusts to tell callers from others, by files that may change.

    Args:
        client_ca: The authorities, PEM.
        crl: What they have revoked, PEM.

    Attributes:
        trust: What follows from the files now.

    Raises:
        CertificateError: When a file cannot be used.
    """

    def __init__(self, client_ca: Path, crl: Path | None) -> None:
        self._authorities = Watched(
            "authorities of callers", [client_ca], lambda: _load(client_ca), CertificateError
        )
        self._revoked: Watched[Revoked] | None = None
        if crl is not None:
            # Also read again when the authorities change, one of which must have signed it.
            self._revoked = Watched(
                "revoked certificates",
                [crl, client_ca],
                lambda: load_revoked(crl, self.certificates),
                CertificateError,
            )
        self.trust = self._make_trust()

    @property
    def pem(self) -> bytes:
        """The authorities, PEM."""
        return self._authorities.value.pem

    @property
    def certificates(self) -> Sequence[x509.Certificate]:
        """The certificates of the authorities."""
        return self._authorities.value.certificates

    def look(self) -> bool:
        """Read what has changed; tells whether there are other authorities."""
        others = self._authorities.look()
        revoked = self._revoked is not None and self._revoked.look()
        if others or revoked:
            self.trust = self._make_trust()
        return others

    def _make_trust(self) -> Trust:
        return Trust(self.certificates, self._revoked.value if self._revoked else frozenset())


def _load(client_ca: Path) -> _Authorities:
    pem = load_authorities(client_ca)
    return _Authorities(pem, parse(pem, client_ca))
