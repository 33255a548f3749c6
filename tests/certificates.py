"""Authorities of certificates made up on the spot, and the files that they write."""

import ipaddress
import tempfile
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
PublicKey = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey

# A server on loopback, by each of its names.
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Issued:
    """A certificate and its private key."""

    certificate: x509.Certificate
    cert: bytes
    key: bytes

    def write(self, directory: Path, name: str) -> tuple[Path, Path]:
        """Write NAME.pem and NAME-key.pem, both in one moment, and return both paths.

        They are links into a folder that is swapped, as a secret of Kubernetes is.
        """
        version = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=directory))
        (version / "cert.pem").write_bytes(self.cert)
        (version / "key.pem").write_bytes(self.key)
        _link(directory / f"{name}.data", version.name)
        return (
            _link(directory / f"{name}.pem", f"{name}.data/cert.pem"),
            _link(directory / f"{name}-key.pem", f"{name}.data/key.pem"),
        )


class Authority:
    """Signs certificates and revokes them.

    Args:
        name: Its name; two authorities of one name have different keys.
        above: Who signs its own certificate; itself, unless given.
        lasts: How long its own certificate is valid.
    """

    def __init__(
        self, name: str = "authority", above: "Authority | None" = None, lasts: timedelta = _HOUR
    ) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self._above = above
        self.certificate = self._certify(lasts)

    @property
    def cert(self) -> bytes:
        """The certificate of the authority, PEM."""
        return self.certificate.public_bytes(Encoding.PEM)

    def renewed(self, lasts: timedelta) -> "Authority":
        """Return the same authority with another certificate."""
        other = copy(self)
        other.certificate = other._certify(lasts)
        return other

    def issue(
        self,
        dns: Sequence[str] = (),
        uris: Sequence[str] = (),
        *,
        lasts: timedelta = _HOUR,
        begins: timedelta = -_HOUR,
        key: Key | None = None,
    ) -> Issued:
        """Issue a certificate, for callers and servers alike.

        Args:
            dns: Host names; those that are IP addresses become such.
            uris: URIs, such as spiffe://cluster/engine.
            lasts: From now to its end; negative for one that has expired.
            begins: From now to its begin.
            key: Its private key; a new one on P-256, unless given.
        """
        key = key or ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_named("issued"), self._name, key.public_key(), lasts, begins)
        if dns or uris:
            names = [*map(_host, dns), *map(x509.UniformResourceIdentifier, uris)]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        chain = [certificate, *self._between()]
        return Issued(
            certificate,
            b"".join(each.public_bytes(Encoding.PEM) for each in chain),
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        )

    def server(self) -> Issued:
        """Issue the certificate of a server on loopback."""
        return self.issue(LOOPBACK)

    def revoke(self, revoked: Iterable[x509.Certificate], lasts: timedelta = _HOUR) -> bytes:
        """Return a list of revoked certificates, PEM."""
        now = datetime.now(UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._name)
            .last_update(min(now, now + lasts) - _HOUR)
            .next_update(now + lasts)
        )
        for each in revoked:
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder()
                .serial_number(each.serial_number)
                .revocation_date(now)
                .build()
            )
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def _certify(self, lasts: timedelta) -> x509.Certificate:
        signer = self._above or self
        return (
            _builder(self._name, signer._name, self._key.public_key(), lasts)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(signer._key, hashes.SHA256())
        )

    def _between(self) -> list[x509.Certificate]:
        """Return its certificate and those above it, but for the root's."""
        return [self.certificate, *self._above._between()] if self._above else []


def replace(path: Path, data: bytes) -> Path:
    """Write a file at once, as rotations do."""
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(data)
    return new.replace(path)


def _link(path: Path, target: str) -> Path:
    new = path.with_name(f"{path.name}.new")
    new.symlink_to(target)
    return new.replace(path)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: PublicKey,
    lasts: timedelta,
    begins: timedelta = -_HOUR,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now + begins, now + lasts - timedelta(seconds=1)))
        .not_valid_after(now + lasts)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
