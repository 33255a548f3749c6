"""Whether a certificate is still trusted, and whose it is."""

import time
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding

from kvtier.server.security.revocation import name_in
from kvtier.server.security.trust import Trust, identity_in
from kvtier.wire.errors import KvtierError, Reason
from tests.certificates import Authority, Issued

NOBODY: frozenset[tuple[bytes, int]] = frozenset()
# Object identifiers, encoded: of a kind of key, and of nothing.
ED25519, UNKNOWN = bytes.fromhex("06032b6570"), bytes.fromhex("06032b6563")
ENGINE = "spiffe://cluster/engine"


def pem(*certificates: x509.Certificate) -> bytes:
    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates)


def split(issued: Issued) -> tuple[bytes, bytes]:
    """A certificate and those that come with it."""
    leaf, *between = x509.load_pem_x509_certificates(issued.cert)
    return pem(leaf), pem(*between)


def judge(trust: Trust, issued: Issued, seconds: float = 0) -> str:
    return trust.identity(*split(issued), time.time() + seconds)


def refusal(trust: Trust, issued: Issued, seconds: float = 0) -> KvtierError:
    with pytest.raises(KvtierError) as told:
        judge(trust, issued, seconds)
    return told.value


@pytest.mark.parametrize(
    ("dns", "uris", "identity"),
    [
        ((), (ENGINE,), ENGINE),
        (("a.example",), ("https://x", ENGINE), ENGINE),
        (("a.example", "b.example"), ("https://x",), "dns:a.example"),
        (("a.example",), (ENGINE, "spiffe://cluster/other"), "dns:a.example"),
        (("127.0.0.1",), ("https://x", "https://y"), "uri:https://x"),
        (("127.0.0.1",), (), ""),
        ((), (), ""),
    ],
)
def test_a_certificate_names_its_owner(
    dns: tuple[str, ...], uris: tuple[str, ...], identity: str
) -> None:
    """By its only SPIFFE id, else a DNS name, else a URI."""
    assert identity_in(Authority().issue(dns, uris).certificate) == identity


def test_one_that_names_nobody_is_refused() -> None:
    """It is trusted, but a caller must be somebody."""
    authority = Authority()

    told = refusal(Trust([authority.certificate], NOBODY), authority.issue())

    assert told.reason == Reason.NO_IDENTITY


def test_trust_may_go_over_others() -> None:
    """Certificates between the caller's and the authority's come with it."""
    root = Authority("root")
    issued = Authority("lower", Authority("middle", root)).issue(uris=[ENGINE])

    assert (
        judge(Trust([Authority("other").certificate, root.certificate], NOBODY), issued) == ENGINE
    )


def test_an_authority_in_the_middle_may_be_trusted_alone() -> None:
    """As gRPC does at the handshake."""
    middle = Authority("middle", Authority("root"))

    assert judge(Trust([middle.certificate], NOBODY), middle.issue(uris=[ENGINE])) == ENGINE


def test_one_of_another_authority_is_refused() -> None:
    """Also of one that has the same name."""
    told = refusal(Trust([Authority().certificate], NOBODY), Authority().issue(uris=[ENGINE]))

    assert told.reason == Reason.REVOKED
    assert ENGINE in told.message
    assert "no authority" in told.message


def test_a_caller_cannot_issue_for_others() -> None:
    """A certificate that may not sign is no way to an authority."""
    root = Authority("root")
    caller = root.issue(uris=[ENGINE])
    forger = Authority("issued")
    forged = forger.issue(uris=["spiffe://cluster/admin"])
    chain = pem(forger.certificate), pem(caller.certificate, forger.certificate)

    with pytest.raises(KvtierError):
        Trust([root.certificate], NOBODY).identity(
            pem(forged.certificate), b"".join(chain), time.time()
        )


def test_a_revoked_one_is_refused() -> None:
    """Another of the same owner is not."""
    authority = Authority()
    old, new = (authority.issue(uris=[ENGINE]) for _ in range(2))
    trust = Trust([authority.certificate], frozenset([name_in(old.certificate)]))

    told = refusal(trust, old)

    assert told.reason == Reason.REVOKED
    assert "was revoked" in told.message
    assert judge(trust, new) == ENGINE


def test_those_under_a_revoked_one_are_refused() -> None:
    """Nothing between may be revoked either."""
    root = Authority("root")
    middle = Authority("middle", root)
    trust = Trust([root.certificate], frozenset([name_in(middle.certificate)]))

    assert "no authority" in refusal(trust, middle.issue(uris=[ENGINE])).message


def test_trust_ends_with_the_certificate() -> None:
    """To the second."""
    authority = Authority()
    issued = authority.issue(uris=[ENGINE], lasts=timedelta(minutes=1))
    trust = Trust([authority.certificate], NOBODY)

    assert judge(trust, issued, 50) == ENGINE
    assert "has expired" in refusal(trust, issued, 70).message


def test_trust_ends_with_the_last_authority() -> None:
    """When one is renewed before it ends, its certificates are good on."""
    short = Authority(lasts=timedelta(minutes=1))
    renewed = short.renewed(timedelta(minutes=10))
    issued = short.issue(uris=[ENGINE])

    assert "has expired" in refusal(Trust([short.certificate], NOBODY), issued, 70).message
    both = Trust([short.certificate, renewed.certificate], NOBODY)
    assert judge(both, issued, 70) == ENGINE


def test_an_authority_with_a_key_of_no_known_kind_stands_for_nobody() -> None:
    """Another one of its name still does."""
    authority = Authority("issued")
    key = ed25519.Ed25519PrivateKey.generate()
    encoded = Authority().issue(key=key).certificate.public_bytes(Encoding.DER)
    strange = x509.load_der_x509_certificate(encoded.replace(ED25519, UNKNOWN))
    issued = authority.issue(uris=[ENGINE])

    assert judge(Trust([strange, authority.certificate], NOBODY), issued) == ENGINE
    assert refusal(Trust([strange], NOBODY), issued).reason == Reason.REVOKED


def test_a_name_that_is_too_long_is_nobodys() -> None:
    """SPIFFE IDs have 2,048 bytes at most; longer names are not compared with grants."""
    longest = ENGINE.ljust(2048, "x")

    assert identity_in(Authority().issue(uris=[longest]).certificate) == longest
    assert identity_in(Authority().issue(uris=[f"{longest}x"]).certificate) == ""
