"""Reading certificates and keys, or saying in one line what is wrong with a file."""

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)


class CertificateError(Exception):
    """A file of certificates or keys cannot be used; the message names it and says why."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} {why}")
        self.path = path
        self.why = why


class KeyPair(NamedTuple):
    """A certificate with its key.

    Attributes:
        chain: The certificate and those above it, PEM.
        key: The private key, PEM.
        certificate: The certificate.
    """

    chain: bytes
    key: bytes
    certificate: x509.Certificate


def load_key_pair(cert: Path, key: Path, now: datetime | None = None) -> KeyPair:
    """Read a certificate and its private key.

    Raises:
        CertificateError: When a file cannot be read or is not PEM, the certificate is not valid at
            this time, or the key is not the certificate's.
    """
    chain, private = read(cert), read(key)
    certificate = parse(chain, cert)[0]
    check_time(certificate, cert, now or datetime.now(UTC))
    try:
        loaded = load_pem_private_key(private, None)
    except TypeError:
        raise CertificateError(key, "is encrypted; give a key without a password") from None
    except ValueError:
        raise CertificateError(key, "holds no private key in PEM") from None
    if _public(loaded.public_key()) != _public(certificate.public_key()):
        raise CertificateError(key, f"is not the key of the certificate in {cert}")
    return KeyPair(chain, private, certificate)


def load_authorities(path: Path, now: datetime | None = None) -> bytes:
    """Read the certificates of authorities, PEM; one at least must be valid at this time.

    Raises:
        CertificateError: When the file cannot be read, is not PEM, or all have expired.
    """
    data = read(path)
    found = parse(data, path)
    at = now or datetime.now(UTC)
    if not any(each.not_valid_before_utc <= at <= each.not_valid_after_utc for each in found):
        check_time(found[0], path, at)
    return data


def read(path: Path) -> bytes:
    """Return what a file holds.

    Raises:
        CertificateError: When it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise CertificateError(path, f"cannot be read: {why}") from None


def parse(data: bytes, path: Path) -> list[x509.Certificate]:
    """Return the certificates in PEM, one at least.

    Raises:
        CertificateError: When there is none, or one is broken.
    """
    try:
        return x509.load_pem_x509_certificates(data)
    except ValueError:
        raise CertificateError(path, "holds no certificate in PEM") from None


def check_time(certificate: x509.Certificate, path: Path, now: datetime) -> None:
    """Check that a certificate is valid at a time.

    Raises:
        CertificateError: When it is not.
    """
    if now > certificate.not_valid_after_utc:
        expired = certificate.not_valid_after_utc.isoformat()
        raise CertificateError(path, f"expired at {expired}; renew the certificate")
    if now < certificate.not_valid_before_utc:
        begins = certificate.not_valid_before_utc.isoformat()
        raise CertificateError(path, f"is not valid before {begins}; check the clock")


def _public(key: object) -> bytes:
    encoded: bytes = key.public_bytes(  # type: ignore[attr-defined]  # every kind has it
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    )
    return encoded
