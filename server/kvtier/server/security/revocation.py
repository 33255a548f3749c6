"""Lists of revoked certificates."""

import re
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from kvtier.wire.certificates import CertificateError, read

Revoked = frozenset[tuple[bytes, int]]
"""Issuer, in DER, and serial number of each revoked certificate."""

_PEM = re.compile(rb"-----BEGIN X509 CRL-----.+?-----END X509 CRL-----", re.DOTALL)


def load_revoked(path: Path, authorities: Sequence[x509.Certificate]) -> Revoked:
    """Read the certificates that are revoked by the lists in a PEM file.

    A list whose time is over is heeded like another: what it revokes stays revoked.

    Raises:
        CertificateError: When it cannot be read or holds no list, or one that none of the
            authorities has signed.
    """
    lists = [_parse(pem, path) for pem in _PEM.findall(read(path))]
    if not lists:
        raise CertificateError(path, "holds no revocation list in PEM")
    for each in lists:
        if not any(_signed(each, authority) for authority in authorities):
            raise CertificateError(
                path,
                f"holds a list of {each.issuer.rfc4514_string()!r:.200} that no authority in "
                "client_ca has signed",
            )
    return frozenset(
        (each.issuer.public_bytes(), revoked.serial_number) for each in lists for revoked in each
    )


def name_in(certificate: x509.Certificate) -> tuple[bytes, int]:
    """Return how lists name a certificate."""
    return certificate.issuer.public_bytes(), certificate.serial_number


def _parse(pem: bytes, path: Path) -> x509.CertificateRevocationList:
    try:
        return x509.load_pem_x509_crl(pem)
    except ValueError:
        raise CertificateError(path, "holds a broken revocation list") from None


def _signed(revocations: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    if revocations.issuer != authority.subject:
        return False
    try:
        return revocations.is_signature_valid(authority.public_key())  # type: ignore[arg-type]
    except (TypeError, UnsupportedAlgorithm):  # a key that signs nothing, or nothing known
        return False
