"""Whether a caller's certificate is still one that the authorities stand for, and whose it is."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

from kvtier.server.security.revocation import Revoked, name_in
from kvtier.wire.errors import KvtierError, Reason, unauthenticated

# Certificates between a caller's and an authority's that are looked at.
_MOST_BETWEEN = 8
# Certificates whose verdict is remembered; callers with more are judged again.
_MOST_REMEMBERED = 4096
# Of a SPIFFE ID, in bytes. To compare a very long name with grants takes very long.
_LONGEST_NAME = 2048


class Verdict(NamedTuple):
    """What is to be said of a certificate as long as the same authorities are trusted.

    Attributes:
        identity: Whose it is; empty when it names nobody.
        until: When the trust in it ends by itself, in seconds since the epoch.
        problem: Why it is refused; empty when it is good until then.
    """

    identity: str
    until: float
    problem: str


class Trust:
    """The authorities of callers, and what they have revoked; never changed, only replaced.

    A connection outlives its handshake, in which gRPC checked everything: this checks again what
    may have changed since.

    Args:
        authorities: Whose certificates callers have.
        revoked: What was revoked of them.
    """

    def __init__(self, authorities: Sequence[x509.Certificate], revoked: Revoked) -> None:
        self._authorities = authorities
        self._revoked = revoked
        self._verdicts: dict[tuple[bytes, bytes], Verdict] = {}

    def identity(self, certificate: bytes, between: bytes, now: float) -> str:
        """Return whose a certificate is.

        Args:
            certificate: The caller's, PEM.
            between: Those that it sent with it, PEM.
            now: Seconds since the epoch.

        Raises:
            KvtierError: UNAUTHENTICATED when it is not trusted any more, or names nobody.
        """
        key = certificate, between
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = self._judge(*key)
            if len(self._verdicts) >= _MOST_REMEMBERED:
                self._verdicts.clear()
            self._verdicts[key] = verdict
        if verdict.problem or now >= verdict.until:
            raise _distrusted(verdict)
        if not verdict.identity:
            raise _nobody()
        return verdict.identity

    def _judge(self, certificate: bytes, between: bytes) -> Verdict:
        leaf = x509.load_pem_x509_certificate(certificate)
        identity = identity_in(leaf)
        if name_in(leaf) in self._revoked:
            return Verdict(identity, 0, "was revoked")
        sent = x509.load_pem_x509_certificates(between) if between else []
        until = self._trusted_until(leaf, sent[:_MOST_BETWEEN])
        if until is None:
            return Verdict(identity, 0, "comes from no authority that this server trusts now")
        return Verdict(identity, until, "")

    def _trusted_until(
        self, leaf: x509.Certificate, between: Sequence[x509.Certificate]
    ) -> float | None:
        """Return when the last of all ways to an authority ends, None when there is no way."""
        trusted = [(_end(each), each) for each in self._authorities]
        open_ = [leaf, *(each for each in between if self._may_stand_between(each))]
        while leaf not in (certificate for _, certificate in trusted):
            ends = [
                (min(end, _end(each)), each)
                for each in open_
                for end, issuer in trusted
                if _issued(each, issuer)
            ]
            if not ends:
                return None
            best = max(ends, key=lambda found: found[0])
            trusted.append(best)
            open_.remove(best[1])
        return next(end for end, certificate in trusted if certificate == leaf)

    def _may_stand_between(self, certificate: x509.Certificate) -> bool:
        return _signs(certificate) and name_in(certificate) not in self._revoked


def identity_in(certificate: x509.Certificate) -> str:
    """Return whose a certificate is, in one word; empty when it names nobody.

    That is its only spiffe:// URI, or its first DNS name, or its first URI, if that is no longer
    than such names are.
    """
    name = _name_in(certificate)
    return name if len(name) <= _LONGEST_NAME else ""


def _name_in(certificate: x509.Certificate) -> str:
    names = list(_alternative_names(certificate))
    uris = [name.value for name in names if isinstance(name, x509.UniformResourceIdentifier)]
    spiffe = [uri for uri in uris if uri.startswith("spiffe://")]
    if len(spiffe) == 1:
        return spiffe[0]
    for name in names:
        if isinstance(name, x509.DNSName):
            return f"dns:{name.value}"
    return f"uri:{uris[0]}" if uris else ""


def _alternative_names(certificate: x509.Certificate) -> Iterator[x509.GeneralName]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return
    yield from names.value


def _signs(certificate: x509.Certificate) -> bool:
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except (x509.ExtensionNotFound, ValueError):
        return False
    return constraints.value.ca


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _end(certificate: x509.Certificate) -> float:
    return certificate.not_valid_after_utc.timestamp()


def _distrusted(verdict: Verdict) -> KvtierError:
    whose = f" of {verdict.identity}" if verdict.identity else ""
    return unauthenticated(
        f"the certificate{whose} {verdict.problem or 'has expired'}: connect with a new one",
        Reason.REVOKED,
    )


def _nobody() -> KvtierError:
    return unauthenticated(
        "the certificate names nobody: use one with a spiffe:// URI or a DNS name among its "
        "subject alternative names",
        Reason.NO_IDENTITY,
    )
