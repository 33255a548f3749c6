"""Members of a proxy that a test makes up, and requests over the test's namespace."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kvtier.client.proxy.runs import Runs

from .messages import FINGERPRINT, NAMESPACE, block_run


@dataclass
class Member:
    """A member as a test wants it."""

    endpoint: str
    client: Any = None
    node_ids: list[str] = field(default_factory=list)
    down: bool = False
    said: str = ""

    def reason(self, node_id: str = "") -> str:
        return self.said


@dataclass
class Fleet:
    """A primary and secondaries; those in `trusted` are in reach and exact."""

    primary: Member
    secondaries: Sequence[Member]
    trusted: set[str] = field(default_factory=set)

    def trusts(self, node_id: str) -> bool:
        return node_id in self.trusted


def member(name: str, **fields: Any) -> Member:
    return Member(f"{name}:1", node_ids=[name], **fields)


def fleet(*secondaries: str) -> Fleet:
    """A fleet whose nodes are all in reach."""
    return Fleet(member("p"), [member(name) for name in secondaries], {"p", *secondaries})


def runs_of(*runs: Sequence[int]) -> Runs:
    return Runs(FINGERPRINT, NAMESPACE, [block_run(*numbers) for numbers in runs])
