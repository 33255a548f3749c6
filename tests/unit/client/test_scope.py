"""The scope keeps adapters, tenants and salts apart."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtier.client import InvalidArgumentError, scope_of

from .patience import patiently

_parts = st.tuples(st.text(max_size=8), st.text(max_size=8), st.binary(max_size=8))


def test_nothing_is_the_common_scope() -> None:
    """No adapter, tenant or salt gives the empty scope."""
    assert scope_of() == b""
    assert scope_of(adapter="", tenant="", salt=b"") == b""


@pytest.mark.parametrize(
    ("adapter", "tenant", "salt", "expected"),
    [
        ("a", "", b"", "0f86f63d86a14bd5fa24dfdfc731d931847c9a7352b421215c83f0cb50c6390d"),
        (
            "sql-lora",
            "acme",
            b"",
            "2e31214306a89fd7239fb1dad2185b640128f877edb88f299a8d5dc390355f87",
        ),
        (
            "",
            "",
            bytes(range(16)),
            "08a8fbbf88f2bd84fcb62f2d7fa1dfd74f37f399602919e65c0ab4d81fa6748e",
        ),
        (
            "größe",
            "東京",
            b"\x00",
            "ba2647491acbbfe444a48c837731add4143c9218cfb503bf5b16f5e958cb11b2",
        ),
    ],
)
def test_a_scope_is_the_same_in_every_release(
    adapter: str, tenant: str, salt: bytes, expected: str
) -> None:
    """These scopes are stored in clusters; they never change."""
    assert scope_of(adapter=adapter, tenant=tenant, salt=salt).hex() == expected


@patiently
@given(_parts, _parts)
def test_different_parts_give_different_scopes(
    one: tuple[str, str, bytes], other: tuple[str, str, bytes]
) -> None:
    """Scopes are equal exactly when adapter, tenant and salt are."""
    scopes = [scope_of(adapter=a, tenant=t, salt=s) for a, t, s in (one, other)]

    assert (scopes[0] == scopes[1]) == (one == other)


def test_a_letter_cannot_move_from_part_to_part() -> None:
    """An adapter and a tenant that read alike one after the other stay apart."""
    assert scope_of(adapter="ab", tenant="c") != scope_of(adapter="a", tenant="bc")
    assert scope_of(adapter="a") != scope_of(tenant="a") != scope_of(salt=b"a")


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: scope_of(adapter=b"a"), "adapter"),  # type: ignore[arg-type]
        (lambda: scope_of(tenant=3), "tenant"),  # type: ignore[arg-type]
        (lambda: scope_of(salt="s"), "salt"),  # type: ignore[arg-type]
        (lambda: scope_of(adapter="\ud800"), "adapter"),
    ],
)
def test_a_wrong_type_is_named(call: Callable[[], bytes], name: str) -> None:
    """An argument that cannot be used is refused by name."""
    with pytest.raises(InvalidArgumentError, match=f"^{name} must be"):
        call()
