"""What callers may do, by identity, role and namespace."""

from typing import Any

import pytest

from kvtier.server.config.security import GrantConfig
from kvtier.server.security.grants import Allowed, Grants, Role
from kvtier.wire.errors import KvtierError, Reason

ENGINE, OPS = "spiffe://cluster/ns/prod/sa/engine", "token:ops"


def grants(*settings: tuple[Any, ...]) -> Grants:
    names = ("identity", "role", "namespaces")
    return Grants([GrantConfig(**dict(zip(names, each, strict=False))) for each in settings])


def may(grants: Grants, identity: str, role: Role, namespace: str = "llama") -> bool:
    try:
        allowed = grants.namespaces(identity, role)
    except KvtierError:
        return False
    return allowed is None or namespace in allowed


def test_without_grants_everybody_may_do_everything() -> None:
    """Whoever is known at all."""
    assert all(may(Grants(None), ENGINE, role) for role in Role)


@pytest.mark.parametrize(
    ("granted", "roles"),
    [
        ("reader", [Role.READER]),
        ("writer", [Role.READER, Role.WRITER]),
        ("admin", [Role.READER, Role.WRITER, Role.ADMIN]),
    ],
)
def test_a_role_holds_those_before_it(granted: str, roles: list[Role]) -> None:
    """And none behind it."""
    assert [role for role in Role if may(grants((OPS, granted)), OPS, role)] == roles


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        (ENGINE, True),
        ("spiffe://cluster/ns/prod/*", True),
        ("spiffe://*/sa/engine", True),
        ("*", True),
        ("spiffe://cluster/ns/prod", False),
        ("spiffe://cluster/ns/prod/sa/engin", False),
        ("spiffe://cluster/ns/prod/sa/engin?", False),
        ("spiffe://cluster/ns/prod/sa/[e]ngine", False),
        (ENGINE.upper().replace("SPIFFE", "spiffe"), False),
        ("token:*", False),
    ],
)
def test_a_star_stands_for_any_text_and_nothing_else_does(pattern: str, matches: bool) -> None:
    """A pattern is of the whole identity."""
    assert may(grants((pattern, "reader")), ENGINE, Role.READER) is matches


def test_a_dot_in_a_pattern_is_a_dot() -> None:
    """No character but the star is more than itself."""
    assert not may(grants(("dns:a.example", "reader")), "dns:aXexample", Role.READER)


def test_a_grant_is_for_its_namespaces() -> None:
    """Those of several grants add up, each with its own role."""
    some = grants((OPS, "admin", ["llama-*"]), (OPS, "reader", ["mistral", "qwen-*"]))

    assert may(some, OPS, Role.ADMIN, "llama-8b")
    assert may(some, OPS, Role.READER, "llama-8b")
    assert may(some, OPS, Role.READER, "mistral")
    assert not may(some, OPS, Role.WRITER, "mistral")
    assert not may(some, OPS, Role.READER, "mistral-7b")
    assert not may(some, OPS, Role.READER, "xllama-8b")


def test_a_star_among_the_namespaces_is_all_of_them() -> None:
    """Such a caller is asked for no namespace."""
    assert grants((OPS, "writer", ["a", "*"])).namespaces(OPS, Role.READER) is None


def test_whoever_has_no_grant_may_do_nothing() -> None:
    """The answer names the identity, the role and the setting, again and again."""
    some = grants((OPS, "writer"))
    for identity, role in ((ENGINE, Role.READER), (OPS, Role.ADMIN)) * 2:
        with pytest.raises(KvtierError) as told:
            some.namespaces(identity, role)

        assert told.value.code.name == "PERMISSION_DENIED"
        assert told.value.reason == Reason.NOT_ALLOWED
        for word in (identity, role.name.lower(), "auth.grants"):
            assert word in told.value.message


def test_a_name_of_several_lines_is_matched_whole() -> None:
    """No line break gets a name past a pattern."""
    assert "llama\nx" not in Allowed(["llama"])
    assert "llama\n" not in Allowed(["llama"])
    assert "llama\nx" in Allowed(["llama*"])
