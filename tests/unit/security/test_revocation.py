"""Lists of revoked certificates."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from kvtier.server.security.revocation import load_revoked, name_in
from kvtier.wire.certificates import CertificateError
from tests.certificates import Authority, replace


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "crl.pem"


def test_a_file_may_hold_the_lists_of_several_authorities(file: Path) -> None:
    """What each has revoked is, and nothing else."""
    one, other = Authority("one"), Authority("other")
    revoked = [one.issue().certificate, other.issue().certificate]
    replace(file, one.revoke(revoked[:1]) + other.revoke(revoked[1:]))

    found = load_revoked(file, [one.certificate, other.certificate])

    assert found == set(map(name_in, revoked))


def test_a_list_is_heeded_when_its_time_is_over(file: Path) -> None:
    """What was revoked stays so, though nobody has renewed the list."""
    authority = Authority()
    revoked = authority.issue().certificate
    replace(file, authority.revoke([revoked], timedelta(minutes=-5)))

    assert load_revoked(file, [authority.certificate]) == {name_in(revoked)}


BROKEN: dict[str, tuple[Callable[[Authority], bytes], str]] = {
    "nothing": (lambda _: b"", "no revocation list"),
    "a certificate": (lambda a: a.cert, "no revocation list"),
    "garbage": (
        lambda _: b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n",
        "broken revocation list",
    ),
    "one of a stranger": (lambda _: Authority("stranger").revoke([]), "stranger"),
    "one of a namesake": (lambda _: Authority().revoke([]), "no authority in client_ca"),
    "a good one and another": (
        lambda a: a.revoke([]) + Authority("stranger").revoke([]),
        "no authority in client_ca",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_no_authority_has_signed_is_refused(file: Path, kind: str) -> None:
    """By path and reason: else anybody who writes the file could lock others out."""
    make, why = BROKEN[kind]
    authority = Authority()
    replace(file, make(authority))

    with pytest.raises(CertificateError, match=why) as told:
        load_revoked(file, [authority.certificate])

    assert str(told.value).startswith(f"{file} ")


def test_a_missing_file_is_told(file: Path) -> None:
    """By path and reason."""
    with pytest.raises(CertificateError, match="cannot be read: no such file"):
        load_revoked(file, [])
