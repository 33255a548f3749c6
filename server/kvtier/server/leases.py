"""Leases: who holds which slots, for how long, and what became of it."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush
from itertools import count
from math import inf

from kvtier.server.accounts import Accounts
from kvtier.server.callers import caller
from kvtier.server.clock import Clock
from kvtier.server.quarantine import Quarantine
from kvtier.server.tiers.spaces import NamespaceInfo
from kvtier.server.tiers.table import DOOMED, PENDING, WRITTEN
from kvtier.server.tiers.tier import Tier
from kvtier.v1 import block_pb2
from kvtier.v1.tier_pb2 import LeaseKind
from kvtier.wire.errors import Reason, aborted, failed_precondition, invalid, not_found

STORE = LeaseKind.LEASE_KIND_STORE
LOAD = LeaseKind.LEASE_KIND_LOAD
PIN = LeaseKind.LEASE_KIND_PIN
_LEASE_ID_BYTES = 16
_REMEMBER_SECONDS = 300.0
_REMEMBER_BYTES = 16 << 20
_ENDED_OVERHEAD = 400


def read_lease_id(lease_id: bytes) -> bytes:
    """Return a lease id of 16 bytes."""
    if len(lease_id) != _LEASE_ID_BYTES:
        raise invalid(
            f"lease id has {len(lease_id)} bytes; it must be {_LEASE_ID_BYTES} random bytes"
        )
    return lease_id


class End(Enum):
    """How a lease ended."""

    COMPLETED = "was completed"
    RELEASED = "was released"
    OWNER_RELEASED = "was released with all leases of its owner"
    EXPIRED = "expired"
    CLEARED = "was ended by a clear"


# Whoever names the lease itself is its owner; anybody may name an owner.
_OWNERS_WORD = {End.COMPLETED, End.RELEASED}


@dataclass(slots=True, eq=False)
class Lease:
    """An open lease.

    Attributes:
        id: The caller's 16 bytes.
        owner: Who holds it.
        kind: The `LeaseKind`.
        tier: The tier of the slots.
        namespace: The namespace of the blocks.
        request: Digest of the request that took it.
        slots: The slot of each block that it holds, by the block's first place in the request.
        block_bytes: Bytes of the block at each place of the request.
        aliases: For a further place of a block that it held: its first place.
        generation: The life of this lease.
        opened: When it was opened, on the monotonic clock.
        expires: When it ends by itself, on the monotonic clock.
        due: When it is next looked at whether it has expired.
        answer: The encoded answer to the request that took it.
        bytes_held: Bytes of the blocks that it held when it was opened, for its owner's limit.
        writing: Places whose block a call is writing now.
        offered: Keys of the whole offer, where the tier writes through.
        mapping: The mapping through which the owner writes or reads by itself; 0 without one.
        caller: Whose call took it; empty for the node itself.
    """

    id: bytes
    owner: str
    kind: LeaseKind.ValueType
    tier: Tier
    namespace: NamespaceInfo
    request: bytes
    slots: dict[int, int]
    block_bytes: Sequence[int]
    aliases: dict[int, int]
    generation: int = 0
    opened: float = 0.0
    expires: float = 0.0
    due: float = inf
    answer: bytes = b""
    bytes_held: int = 0
    writing: set[int] = field(default_factory=set)
    offered: Sequence[bytes] = ()
    mapping: int = 0
    caller: str = ""

    def reference(self) -> block_pb2.Lease:
        """Return the lease as callers name it."""
        return block_pb2.Lease(id=self.id, generation=self.generation)


@dataclass(frozen=True, slots=True)
class _Ended:
    kind: int
    generation: int
    request: bytes
    how: End
    answer: bytes
    outcome: bytes | None
    until: float

    def size(self) -> int:
        return _ENDED_OVERHEAD + len(self.answer) + len(self.outcome or b"")


class Leases:
    """All leases of a node.

    An ended lease is remembered for five minutes, within 16 MiB, so that a repeated call gets the
    first answer.

    Args:
        clock: The clock that ends leases.
        first_generation: Where generations start; random, so that those of an earlier life of the
            node are not taken for today's.
        accounts: Whose leases there are; empty, and kept by this class from now on.
        quarantine: Where the slots go that a late writer may still be writing into.

    Attributes:
        accounts: As given.
        quarantine: As given.
    """

    def __init__(
        self, clock: Clock, first_generation: int, accounts: Accounts, quarantine: Quarantine
    ) -> None:
        self.accounts = accounts
        self.quarantine = quarantine
        self._clock = clock
        self._generations = count(first_generation)
        self._open: dict[bytes, Lease] = {}
        # Ids, not leases: an entry stays until it is due, also when the lease ended long before.
        self._expiries: list[tuple[float, int, bytes]] = []
        self._ended: OrderedDict[bytes, _Ended] = OrderedDict()
        self._ended_bytes = 0

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Lease]:
        return iter(list(self._open.values()))

    def first_answer(self, lease_id: bytes, request: bytes) -> bytes | None:
        """Return the first answer to a repeated request for a lease; None for a new lease id.

        Raises:
            KvtierError: FAILED_PRECONDITION when the id was used for another request, ABORTED when
                the lease has expired or was cleared.
        """
        lease = self._open.get(lease_id)
        ended = self._ended.get(lease_id)
        if lease is None and ended is None:
            return None
        known = lease.request if lease is not None else ended.request if ended else b""
        if known != request:
            raise failed_precondition(
                f"lease id {lease_id.hex()} was used for another request: choose 16 new random "
                "bytes for each",
                Reason.LEASE_REUSED,
            )
        if lease is not None:
            return lease.answer
        assert ended is not None
        if ended.how in {End.EXPIRED, End.CLEARED}:
            raise _ended_error(lease_id, ended)
        return ended.answer

    def room_of(self, owner: str, *, pin: bool = False) -> int:
        """Return how many bytes a further lease, or pin, of an owner may hold.

        Raises:
            KvtierError: RESOURCE_EXHAUSTED when the owner may have no further one.
        """
        return self.accounts.room_of(owner, pin=pin)

    def open(self, lease: Lease, ttl: float) -> None:
        """Enter a new lease, with a generation and a time to live in seconds."""
        assert lease.id not in self._open
        lease.generation = next(self._generations)
        lease.opened, lease.caller = self._clock.monotonic(), caller.get()
        self._open[lease.id] = lease
        self.accounts.add(lease)
        self.renew(lease, ttl)

    def renew(self, lease: Lease, ttl: float) -> None:
        """Give a lease a new time to live, in seconds from now."""
        lease.expires = self._clock.monotonic() + ttl
        if lease.expires < lease.due:
            self._schedule(lease)

    def seconds_left(self, lease: Lease) -> float:
        """Return the time to live that an open lease has left."""
        return max(0.0, lease.expires - self._clock.monotonic())

    def find(self, reference: block_pb2.Lease, kind: int | None = None) -> Lease:
        """Return an open lease.

        Raises:
            KvtierError: INVALID_ARGUMENT for an id that cannot be one, NOT_FOUND when it is not
                known or of another kind, ABORTED when it ended or has another generation.
        """
        lease = self._open.get(read_lease_id(reference.id))
        if lease is None:
            ended = self._ended.get(reference.id)
            if ended is None or (kind is not None and ended.kind != kind):
                raise _unknown(reference.id)
            raise _ended_error(reference.id, ended)
        if kind is not None and lease.kind != kind:
            raise _unknown(reference.id)
        if lease.generation != reference.generation:
            raise aborted(
                f"lease {reference.id.hex()} has generation {lease.generation}, not "
                f"{reference.generation}: it was taken anew"
            )
        return lease

    def first_outcome(self, reference: block_pb2.Lease, kind: int) -> bytes | None:
        """Return the outcome of a completed lease, for a repeated completion; else None."""
        ended = self._ended.get(reference.id)
        same = (
            ended is not None
            and ended.how is End.COMPLETED
            and (ended.kind, ended.generation) == (kind, reference.generation)
        )
        return ended.outcome if ended is not None and same else None

    def get(self, lease_id: bytes) -> Lease | None:
        """Return an open lease by its id alone."""
        return self._open.get(lease_id)

    def end_of(self, reference: block_pb2.Lease) -> End | None:
        """Tell how a lease ended; None when it is open, of another generation, or forgotten."""
        ended = self._ended.get(reference.id)
        same = ended is not None and ended.generation == reference.generation
        return ended.how if ended is not None and same else None

    def kind_of(self, lease_id: bytes) -> int | None:
        """Return the kind of a lease that is open, or ended and still remembered; else None."""
        known = self._open.get(lease_id) or self._ended.get(lease_id)
        return known.kind if known is not None else None

    def knows(self, lease_id: bytes) -> bool:
        """Tell whether a lease has ended and is still remembered."""
        return lease_id in self._ended

    def end(self, lease: Lease, how: End, outcome: bytes | None = None) -> None:
        """Take a lease off the books, once its slots are let go.

        Args:
            lease: The lease.
            how: How it ended.
            outcome: The encoded answer that a repeated completion gets; None refuses it.
        """
        del self._open[lease.id]
        self.accounts.remove(lease)
        lease.slots = {}
        until = self._clock.monotonic() + _REMEMBER_SECONDS
        self._remember(
            lease.id,
            _Ended(lease.kind, lease.generation, lease.request, how, lease.answer, outcome, until),
        )

    def let_go(self, lease: Lease, how: End) -> None:
        """End a lease that was not completed: what it reserved or pinned is free again.

        Slots that its owner writes by itself are quarantined, unless it was the owner who ended it.
        """
        slots = list(lease.slots.values())
        if lease.kind == STORE and lease.mapping and how not in _OWNERS_WORD:
            tier, state = lease.tier, lease.tier.table.state
            tier.cut_off([slot for slot in slots if state[slot] in {PENDING, WRITTEN}])
            self.quarantine.take(lease.id, lease.generation, tier, lease.mapping, slots)
        else:
            release_slots(lease, slots)
        self.end(lease, how)

    def expire(self) -> None:
        """End the leases whose time has come."""
        now = self._clock.monotonic()
        while self._expiries and self._expiries[0][0] <= now:
            due, generation, lease_id = heappop(self._expiries)
            lease = self._open.get(lease_id)
            if lease is None or (lease.generation, lease.due) != (generation, due):
                continue
            if lease.expires <= now:
                self.let_go(lease, End.EXPIRED)
            else:
                self._schedule(lease)
        while self._ended:
            lease_id, ended = next(iter(self._ended.items()))
            if ended.until > now:
                break
            self._forget(lease_id)
        self.quarantine.expire()

    def _schedule(self, lease: Lease) -> None:
        lease.due = lease.expires
        heappush(self._expiries, (lease.due, lease.generation, lease.id))

    def _remember(self, lease_id: bytes, ended: _Ended) -> None:
        self._ended[lease_id] = ended
        self._ended_bytes += ended.size()
        while self._ended_bytes > _REMEMBER_BYTES:
            self._forget(next(iter(self._ended)))

    def _forget(self, lease_id: bytes) -> None:
        self._ended_bytes -= self._ended.pop(lease_id).size()


def release_slots(lease: Lease, slots: Sequence[int]) -> None:
    """Let go of some slots of a lease that is not completed."""
    tier = lease.tier
    if lease.kind == LOAD:
        tier.occupancy.unpin(slots)
        return
    if lease.kind == PIN:
        tier.occupancy.end_pin(slots)
        return
    state = tier.table.state
    tier.occupancy.unpin([slot for slot in slots if state[slot] == DOOMED])
    tier.abandon([slot for slot in slots if state[slot] in {PENDING, WRITTEN}])


def _unknown(lease_id: bytes) -> Exception:
    return not_found(
        f"lease {lease_id.hex()} is not known: it never was, or it ended long ago",
        Reason.LEASE_UNKNOWN,
    )


def _ended_error(lease_id: bytes, ended: _Ended) -> Exception:
    return aborted(f"lease {lease_id.hex()} {ended.how.value}: start over with a new lease id")
