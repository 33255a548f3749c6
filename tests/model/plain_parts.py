"""The words of the plain model of a tier: blocks, leases, batches of events."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Key(NamedTuple):
    """What a block is called."""

    namespace: bytes
    group: int
    scope: bytes
    block_hash: bytes


class Offered(NamedTuple):
    """A block of an offer."""

    key: Key
    parent: bytes
    start: int
    adapter: str
    size: int
    token_ids: tuple[int, ...]


@dataclass(eq=False)
class Block:
    """A block that takes a slot.

    Attributes:
        offered: What was offered.
        state: "pending", "written", "ready", or "gone" when only its holders keep the slot.
        payload: The bytes, once they are whole.
        holders: Ids of the leases on it.
    """

    offered: Offered
    state: str = "pending"
    payload: bytes = b""
    holders: set[bytes] = field(default_factory=set)

    @property
    def key(self) -> Key:
        return self.offered.key


@dataclass(eq=False)
class PlainLease:
    """A lease, open or ended.

    Attributes:
        id: The caller's 16 bytes.
        owner: Who holds it.
        kind: "store" or "load".
        namespace: The namespace of its blocks.
        expires: When it ends by itself.
        places: Number of places in its request.
        blocks: The blocks that it holds, by their first place.
        aliases: For every further place of such a block: its first place.
        ended: How it ended; empty while it is open.
        ended_at: When.
        outcome: The results of its completion.
    """

    id: bytes
    owner: str
    kind: str
    namespace: bytes
    expires: float
    places: int
    blocks: dict[int, Block] = field(default_factory=dict)
    aliases: dict[int, int] = field(default_factory=dict)
    ended: str = ""
    ended_at: float = 0.0
    outcome: list[str] | None = None

    def everywhere(self, results: dict[int, str]) -> dict[int, str]:
        """Return results with those of further places of the same blocks."""
        further = {
            place: results[first] for place, first in self.aliases.items() if first in results
        }
        return results | further


class Batch(NamedTuple):
    """One batch of events: namespaces cleared, blocks removed with the reason, blocks stored."""

    cleared: tuple[bytes, ...] = ()
    removed: tuple[tuple[str, Key], ...] = ()
    stored: frozenset[Key] = frozenset()


class Refused(Exception):  # noqa: N818 - an outcome, not an error of the model
    """A call that is refused; any of the reasons may be told."""

    def __init__(self, *reasons: str) -> None:
        super().__init__(*reasons)
        self.reasons = set(reasons)


def by_origin(
    blocks: Sequence[Block], removed: Sequence[tuple[str, Key]]
) -> tuple[tuple[str, Key], ...]:
    """Return removals with those of one space and adapter together, in order of the first."""
    groups: dict[tuple[object, ...], list[tuple[str, Key]]] = {}
    for block, each in zip(blocks, removed, strict=True):
        groups.setdefault((block.key[:3], block.offered.adapter), []).append(each)
    return tuple(each for group in groups.values() for each in group)
