"""What an offer finds in a tier: pure reading, nothing is changed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kvtier.server.tiers.columns import gather
from kvtier.server.tiers.spaces import Space
from kvtier.server.tiers.table import READY, BlockTable
from kvtier.v1.result_pb2 import StoreOutcome
from kvtier.wire.errors import invalid, quote

WRITE = StoreOutcome.STORE_OUTCOME_WRITE
PRESENT = StoreOutcome.STORE_OUTCOME_PRESENT
PENDING = StoreOutcome.STORE_OUTCOME_PENDING
MISMATCH = StoreOutcome.STORE_OUTCOME_MISMATCH
DEFERRED = StoreOutcome.STORE_OUTCOME_DEFERRED


class Run(NamedTuple):
    """An offered run: consecutive blocks of one chain.

    Attributes:
        space: The space of the blocks.
        hashes: The hashes, parent first.
        parent: The hash of the first block's parent; empty at position 0.
        start: Where the first block starts, in tokens; a multiple of the tokens per block.
        token_ids: The token ids of all blocks as 32-bit numbers in the machine's order.
        adapter_name: The adapter's name.
    """

    space: Space
    hashes: Sequence[bytes]
    parent: bytes = b""
    start: int = 0
    token_ids: bytes = b""
    adapter_name: str = ""

    def parents(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the key of each block's parent, given the blocks' keys."""
        first = self.space.prefix + self.parent if self.parent else None
        return [first, *keys[:-1]]

    def starts(self) -> list[int]:
        """Return where each block starts."""
        return self.space.namespace.starts(self.start, len(self.hashes))

    def part(self, first: int, last: int) -> "Run":
        """Return the run of the blocks from one place to before another."""
        tokens = self.space.namespace.tokens_per_block
        return self._replace(
            hashes=self.hashes[first:last],
            parent=self.hashes[first - 1] if first else self.parent,
            start=self.start + first * tokens,
            token_ids=self.token_ids[4 * tokens * first : 4 * tokens * last],
        )

    def tokens_of(self, i: int) -> bytes:
        """Return the token ids of one block."""
        size = 4 * self.space.namespace.tokens_per_block
        return self.token_ids[i * size : (i + 1) * size]


@dataclass(slots=True)
class Plan:
    """The answer to an offer before anything is done.

    Attributes:
        runs: The offered runs.
        keys: The key of each block, by its place over all runs.
        outcomes: The `StoreOutcome` of each block.
        fresh: The places of the blocks to write, each key once.
        found: The slot of each block that is there, None for the others.
        residents: The slots in `found`, each once.
        aliases: For a further place of a key to write: its first place.
        offers: Of the absent keys, how often each was offered; only for a store threshold.
    """

    runs: Sequence[Run]
    keys: list[bytes]
    outcomes: list[StoreOutcome.ValueType]
    fresh: Sequence[int]
    found: list[int | None]
    residents: list[int]
    aliases: dict[int, int]
    offers: Mapping[bytes, int] = field(default_factory=dict)

    def fresh_keys(self) -> Sequence[bytes]:
        """Return the keys of the blocks to write."""
        if len(self.fresh) == len(self.keys):
            return self.keys
        return gather(self.fresh)(self.keys)

    def fresh_bytes(self) -> int:
        """Return the bytes of the blocks to write."""
        return self.total(lambda run: run.space.block_bytes)

    def total(self, each: Callable[[Run], int]) -> int:
        """Return the sum over the blocks to write, given what each block of a run counts for."""
        if len(self.runs) == 1:
            return len(self.fresh) * each(self.runs[0])
        sizes = [size for run in self.runs for size in [each(run)] * len(run.hashes)]
        return sum(map(sizes.__getitem__, self.fresh))


@dataclass(slots=True)
class Reservation:
    """What an offer got.

    Attributes:
        outcomes: The `StoreOutcome` of each block, in the offer's order.
        slots: The slots to write.
        places: The place in the offer of each slot's block.
        aliases: For a further place of a key to write: its first place.
        evicted: The packed hashes that had to go, by space, in order.
        bytes: Bytes of the blocks to write.
    """

    outcomes: list[StoreOutcome.ValueType]
    slots: list[int]
    places: Sequence[int]
    aliases: dict[int, int]
    evicted: list[tuple[Space, bytes]]
    bytes: int


def plan_offer(table: BlockTable, runs: Sequence[Run]) -> Plan:
    """Find out which blocks of an offer are there, and which must be written.

    Raises:
        KvtierError: INVALID_ARGUMENT when a run leaves a gap after its resident parent.
    """
    check_parents(table, runs)
    return plan_blocks(table, runs)


def plan_blocks(table: BlockTable, runs: Sequence[Run]) -> Plan:
    """Find out which blocks of runs are there, whatever the runs say of their parents."""
    keys = [key for run in runs for key in run.space.keys(run.hashes)]
    found = table.index.get_many(keys)
    count = len(keys)
    if found.count(None) == count == len(set(keys)):
        return Plan(runs, keys, [WRITE] * count, range(count), found, [], {})
    return _plan_mixed(table, runs, keys, found)


def _plan_mixed(
    table: BlockTable, runs: Sequence[Run], keys: list[bytes], found: list[int | None]
) -> Plan:
    state = table.state
    first_place: dict[bytes, int] = {}
    aliases: dict[int, int] = {}
    outcomes: list[StoreOutcome.ValueType] = []
    for place, slot in enumerate(found):
        if slot is not None:
            outcomes.append(PRESENT if state[slot] == READY else PENDING)
            continue
        outcomes.append(WRITE)
        first = first_place.setdefault(keys[place], place)
        if first != place:
            aliases[place] = first
    place = 0
    for run in runs:
        end = place + len(run.hashes)
        for i in _mismatches(table, run, keys[place:end], found[place:end]):
            outcomes[place + i] = MISMATCH
        place = end
    residents = [slot for slot in dict.fromkeys(found) if slot is not None]
    if len(residents) + len(first_place) < len(keys):
        _answer_duplicates(keys, outcomes)
    return Plan(runs, keys, outcomes, list(first_place.values()), found, residents, aliases)


def _answer_duplicates(keys: Sequence[bytes], outcomes: list[StoreOutcome.ValueType]) -> None:
    """Answer every further place of a key as its first."""
    first_place: dict[bytes, int] = {}
    for place, key in enumerate(keys):
        outcomes[place] = outcomes[first_place.setdefault(key, place)]


def _mismatches(
    table: BlockTable, run: Run, keys: Sequence[bytes], found: Sequence[int | None]
) -> list[int]:
    parent, start, token_ids = table.parent, table.start, table.token_ids
    expected = zip(found, run.parents(keys), run.starts(), strict=True)
    return [
        i
        for i, (slot, parent_key, position) in enumerate(expected)
        if slot is not None
        and (
            parent[slot] != parent_key
            or start[slot] != position
            or (run.token_ids and slot in token_ids and token_ids[slot] != run.tokens_of(i))
        )
    ]


def check_parents(table: BlockTable, runs: Sequence[Run]) -> None:
    """Raise INVALID_ARGUMENT when a run leaves a gap after its resident parent."""
    for run in runs:
        _check_parent(table, run)


def _check_parent(table: BlockTable, run: Run) -> None:
    if not run.parent:
        return
    slot = table.index.get(run.space.prefix + run.parent)
    if slot is None:
        return
    tokens = run.space.namespace.tokens_per_block
    if table.start[slot] + tokens != run.start:
        raise invalid(
            f"start_position is {run.start}, but the parent {quote(run.parent)} starts at "
            f"{table.start[slot]} and has {tokens} tokens: offer the run at "
            f"{table.start[slot] + tokens}"
        )
