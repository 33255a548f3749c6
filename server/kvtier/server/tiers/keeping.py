"""What a tier of files or objects has beside its table: what lies where on the shelf."""

import asyncio
from array import array
from collections.abc import Iterator, Sequence

import structlog

from kvtier.server.lasting.moving import Moving, Outcome
from kvtier.server.lasting.record import Record, header_bytes, make_name
from kvtier.server.lasting.shelf import ShelfError
from kvtier.server.lasting.store import NO_ANSWER, LastingStore
from kvtier.server.stores.base import Bytes
from kvtier.server.tiers.columns import gather
from kvtier.server.tiers.spaces import PREFIX_BYTES, Space
from kvtier.server.tiers.table import DOOMED, BlockTable, Origin
from kvtier.v1.event_service_pb2 import TierState

# What a block may have at most, for what the largest one takes.
LONGEST_SCOPE = bytes(32)
LONGEST_NAME = "n" * 256
_TOKEN_BYTES = 4

_log = structlog.get_logger(__name__)


class _Names:
    """Names of writes, each made when it is taken: the loop has no time for many digests."""

    def __init__(
        self, origins: Sequence[Origin], keys: Sequence[bytes], serials: Sequence[int]
    ) -> None:
        self._writes = (origins, keys, serials)

    def __len__(self) -> int:
        return len(self._writes[0])

    def __iter__(self) -> Iterator[str]:
        for origin, key, serial in zip(*self._writes, strict=True):
            space = origin.space
            fingerprint, hash_ = space.namespace.fingerprint, key[PREFIX_BYTES:]
            yield make_name(fingerprint, space.group, space.scope, hash_, serial)


class Keeping:
    """Connects the slots of a tier with what lies on its shelf.

    Args:
        tier: The tier's name.
        store: The tier's store.

    Attributes:
        store: As given.
        table: The tier's table.
        strangers: Names of blocks of namespaces that nobody knows; they stay where they are.
        strange_bytes: What these take of the capacity.
    """

    def __init__(self, tier: str, store: LastingStore) -> None:
        self.store = store
        self.table = BlockTable(0)
        self._tier = tier
        self.strangers: list[str] = []
        self.strange_bytes = 0
        self._serials = array("Q")
        # Slots whose block could not be read, and in which of the tier's troubles that was.
        self._unread: dict[int, int] = {}
        # Those of them that are being tried again, begun while the tier was well.
        self._tried_again: set[int] = set()
        # Slots and serials of what is being written.
        self._writing: dict[Moving, Sequence[tuple[int, int]]] = {}
        store.health.listen(self._log_state)

    def cost(self, space: Space, adapter_name: str) -> int:
        """Return the bytes that a block takes of the capacity, header and all."""
        namespace = space.namespace
        tokens = _TOKEN_BYTES * namespace.tokens_per_block if namespace.keep_token_ids else 0
        header = header_bytes(
            scope=len(space.scope),
            hash_width=namespace.hash_width,
            adapter_name=len(adapter_name.encode()),
            token_ids=tokens,
        )
        return self.store.shelf.cost(header + space.block_bytes)

    def save(
        self, slots: Sequence[int], checksums: Sequence[int], blocks: Sequence[Bytes]
    ) -> Moving:
        """Begin to write the blocks of slots, whose tier holds them until that has ended."""
        # What an earlier attempt left, whose caller did not wait for it.
        self.discard(slots)
        for namespace in {self.table.origin[slot].space.namespace for slot in slots}:
            self.store.describe(namespace.fingerprint, namespace.description.SerializeToString)
        serials = [next(self.store.serials) for _ in slots]
        self.found(slots, serials)
        moving = self.store.save(self._records(slots, checksums), blocks)
        self._writing[moving] = list(zip(slots, serials, strict=True))
        moving.ended.add_done_callback(lambda _: self._end_writing(moving))
        return moving

    def load(self, slots: Sequence[int], blocks: Sequence[Bytes]) -> Moving:
        """Begin to fill arrays with the blocks of slots."""
        checksums = [self.table.checksum[slot] for slot in slots]
        if not self.store.health.trouble:
            self._tried_again.update(self._unread.keys() & slots)
        return self.store.load(self._records(slots, checksums), blocks)

    def judge(self, slots: Sequence[int], outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Return what to make of how blocks were read.

        One that failed, and fails again although the tier was well when that began, is damaged:
        else it would be tried, and the tier be in trouble, without end. What is asked for while
        the tier is in trouble proves nothing of the block.
        """
        if Outcome.MISSING in outcomes:
            self.store.describe_again()
        return [self._judge(slot, outcome) for slot, outcome in zip(slots, outcomes, strict=True)]

    def _judge(self, slot: int, outcome: Outcome) -> Outcome:
        if outcome is not Outcome.FAILED:
            self._clear_of_blame(slot)
            return outcome
        troubles = self.store.health.troubles
        in_another = self._unread.setdefault(slot, troubles) != troubles
        again = slot in self._tried_again
        self._tried_again.discard(slot)
        return Outcome.DAMAGED if in_another and again else Outcome.FAILED

    def _clear_of_blame(self, slot: int) -> None:
        self._unread.pop(slot, None)
        self._tried_again.discard(slot)

    def found(self, slots: Sequence[int], serials: Sequence[int]) -> None:
        """Note as which writes the blocks of slots lie on the shelf, or soon will."""
        self._grow()
        for slot, serial in zip(slots, serials, strict=True):
            self._serials[slot] = serial

    def serial(self, slot: int) -> int:
        """Return what the block of a slot is written as; 0 when it is not."""
        return self._serials[slot] if slot < len(self._serials) else 0

    def leave_alone(self, names: Sequence[str], cost: int) -> None:
        """Note blocks of namespaces that nobody knows, and what they take of the capacity."""
        self.strangers += names
        self.strange_bytes += cost
        self.table.used_bytes += cost

    def discard_strangers(self) -> None:
        """Let go what belongs to nobody."""
        self.store.discard(self.strangers)
        self.table.used_bytes -= self.strange_bytes
        self.strangers, self.strange_bytes = [], 0

    def discard(self, slots: Sequence[int]) -> None:
        """Let the files or objects go whose slots are freed."""
        written = [slot for slot in slots if self.serial(slot)]
        if written:
            pick = gather(written)
            table, serials = self.table, self._serials
            self.store.discard(_Names(pick(table.origin), pick(table.key), pick(serials)))
            for slot in written:
                serials[slot] = 0
                self._clear_of_blame(slot)

    @property
    def doomed(self) -> int:
        """How many removed blocks are on the shelf still, or may come there yet."""
        return self.store.doomed + sum(map(len, self._doomed_writes().values()))

    async def flush(self) -> None:
        """Wait until what was removed before is gone from the shelf, and will not come there.

        Raises:
            ShelfError: When it cannot be deleted now, or what was being written does not end; it
                will be deleted when the shelf works again.
        """
        ends = [moving.ended for moving in self._doomed_writes()]
        if ends:
            _, late = await asyncio.wait(ends, timeout=self.store.timeout)
            if late:
                raise ShelfError(NO_ANSWER)
        await self.store.flush()

    def _end_writing(self, moving: Moving) -> None:
        """Let go of what was removed while it was written, so that no restart finds it."""
        self.discard(self._doomed_of(self._writing.pop(moving)))

    def _doomed_writes(self) -> dict[Moving, list[int]]:
        """Return what is being written and was removed: a file of it may be there already."""
        doomed = {moving: self._doomed_of(each) for moving, each in self._writing.items()}
        return {moving: slots for moving, slots in doomed.items() if slots}

    def _doomed_of(self, written: Sequence[tuple[int, int]]) -> list[int]:
        state, now = self.table.state, self._serials
        return [slot for slot, serial in written if state[slot] == DOOMED and now[slot] == serial]

    def _records(self, slots: Sequence[int], checksums: Sequence[int]) -> list[Record]:
        table, serials = self.table, self._serials
        records = []
        for slot, checksum in zip(slots, checksums, strict=True):
            origin = table.origin[slot]
            space = origin.space
            records.append(
                Record(
                    space.namespace.fingerprint,
                    space.group,
                    space.scope,
                    table.key[slot][PREFIX_BYTES:],
                    (table.parent[slot] or b"")[PREFIX_BYTES:],
                    table.start[slot],
                    space.block_bytes,
                    checksum,
                    origin.adapter_name,
                    table.token_ids.get(slot, b""),
                    serials[slot],
                )
            )
        return records

    def _grow(self) -> None:
        missing = len(self.table) - len(self._serials)
        if missing > 0:
            self._serials.frombytes(bytes(8 * missing))

    def _log_state(self) -> None:
        health = self.store.health
        state = TierState.Name(health.state).removeprefix("TIER_STATE_").lower()
        log = _log.warning if health.trouble else _log.info
        log("tier state", tier=self._tier, state=state, reason=health.reason)
