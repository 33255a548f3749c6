"""What each caller may do, by the grants of the configuration."""

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Self, TypeAlias

from kvtier.server.config.security import GrantConfig
from kvtier.wire.errors import KvtierError, Reason, denied, quote

# Callers that what they may do is remembered of.
_MOST_REMEMBERED = 4096
_EVERYTHING = "*"

Namespaces: TypeAlias = "Allowed | None"
"""The namespaces that a caller may use; None for all."""


class Role(IntEnum):
    """What callers may do; each role may do what those before it may."""

    READER = 1
    WRITER = 2
    ADMIN = 3


class Allowed:
    """Some namespaces, by patterns of their names in which * stands for any text.

    Args:
        patterns: The patterns.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._expression = re.compile("|".join(map(_expression, patterns)), re.DOTALL)

    def __contains__(self, name: str) -> bool:
        return self._expression.fullmatch(name) is not None

    def __str__(self) -> str:
        return ", ".join(self._patterns)


class _Grant(NamedTuple):
    identity: re.Pattern[str]
    role: Role
    namespaces: Sequence[str]

    @classmethod
    def of(cls, grant: GrantConfig) -> Self:
        identity = re.compile(_expression(grant.identity), re.DOTALL)
        return cls(identity, Role[grant.role.upper()], grant.namespaces)


class Grants:
    """Tells what callers may do.

    Args:
        grants: The grants; None lets every caller do everything.
    """

    def __init__(self, grants: Sequence[GrantConfig] | None) -> None:
        self._grants = None if grants is None else [_Grant.of(grant) for grant in grants]
        self._remembered: dict[tuple[str, Role], Namespaces] = {}

    def namespaces(self, identity: str, role: Role) -> Namespaces:
        """Return the namespaces in which a caller has a role.

        Raises:
            KvtierError: PERMISSION_DENIED when there is none.
        """
        if self._grants is None:
            return None
        key = identity, role
        if key not in self._remembered:
            found = self._find(identity, role)
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[key] = found
        return self._remembered[key]

    def _find(self, identity: str, role: Role) -> Namespaces:
        granted = [
            pattern
            for grant in self._grants or ()
            if grant.role >= role and grant.identity.fullmatch(identity)
            for pattern in grant.namespaces
        ]
        if not granted:
            raise _lacks(identity, role)
        return None if _EVERYTHING in granted else Allowed(granted)


def _expression(pattern: str) -> str:
    return ".*".join(map(re.escape, pattern.split("*")))


def _lacks(identity: str, role: Role) -> KvtierError:
    return denied(
        f"{quote(identity, 256)} needs the role {role.name.lower()} for this call: let an operator "
        "add a grant to auth.grants",
        Reason.NOT_ALLOWED,
    )
