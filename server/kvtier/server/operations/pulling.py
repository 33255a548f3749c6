"""CopyBlocks from a tier of another node."""

import re
from collections.abc import AsyncGenerator, Container, Iterator, Sequence

from kvtier.server.leases import STORE, Lease
from kvtier.server.node import Node
from kvtier.server.operations.fetching import LEASE_MARGIN, ByNumber, Fetched, fetch
from kvtier.server.operations.requests import check_accepts
from kvtier.server.peers.peer import PeerError
from kvtier.server.tiering.carrier import COPIED, CORRUPT, FAILED, NO_ROOM, PENDING, PRESENT
from kvtier.server.tiers import offer
from kvtier.server.tiers.offer import Plan, Run, check_parents, plan_blocks
from kvtier.server.tiers.room import fitting
from kvtier.server.tiers.tier import Tier
from kvtier.server.transfers.limit import transfer
from kvtier.server.transfers.writer import memory_of_write
from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.copying_pb2 import PeerTier
from kvtier.v1.result_pb2 import CopyResult
from kvtier.v1.transfer_service_pb2 import ReadTarget
from kvtier.wire.chunks import CHUNK_BYTES
from kvtier.wire.errors import invalid, quote

# What became of blocks, by their keys.
Results = dict[bytes, CopyResult.ValueType]

_TIER_NAME = re.compile(r"[a-z0-9-]{1,63}")
_OUTCOMES = {
    offer.PRESENT: PRESENT,
    offer.PENDING: PENDING,
    offer.MISMATCH: CopyResult.COPY_RESULT_MISMATCH,
}
_LEASE_ID_BYTES = 16
_STEP_BLOCKS = 2048
_STEP_BYTES = 64 << 20
_STEP_PART = 4


def pull(
    node: Node, source: PeerTier, target: Tier, runs: Sequence[Run]
) -> AsyncGenerator[Results, None]:
    """Copy blocks from a peer step by step; yield what became of some of them.

    A step takes room for its own blocks only, once the peer has told which of them it has not. What
    has not come when the caller leaves is given back.

    Raises:
        KvtierError: From here: INVALID_ARGUMENT or PERMISSION_DENIED, or that the target takes no
            blocks now. From a step: UNAVAILABLE when the node drains or the peer was never reached,
            NOT_FOUND or RESOURCE_EXHAUSTED when the peer said so, or there are too many transfers.
    """
    if not _TIER_NAME.fullmatch(source.tier):
        raise invalid(
            f"from_peer.tier is {quote(source.tier)}; the name of a tier has 1 to 63 of a-z, 0-9 "
            "and '-'"
        )
    check_parents(target.table, runs)
    check_accepts(target)
    return _Pull(node, source, target, runs).results()


class _Pull:
    def __init__(self, node: Node, source: PeerTier, target: Tier, runs: Sequence[Run]) -> None:
        self._node = node
        self._peer = node.peers.get(source.endpoint)
        self._source = source.tier
        self._target = target
        self._runs = runs
        self._keys = _keys(runs)
        # One group for the whole call, by a name that no request can have.
        self._group = f"\0pull {node.stamps.next()}"
        self._heard = False

    async def results(self) -> AsyncGenerator[Results, None]:
        with transfer(self._node):
            for step in cut_into_steps(self._runs, self._most_blocks()):
                self._node.refuse_when_closing()
                results, failure = await self._step(step)
                if results:
                    yield results
                try:
                    if failure is not None:
                        raise failure
                finally:
                    # The error leads to this frame, and would keep what the call had.
                    del failure

    async def _step(self, runs: Sequence[Run]) -> tuple[Results, PeerError | None]:
        """Bring the blocks of a step; return what is known of them, and why not of all."""
        table, copying = self._target.table, self._node.tiering.copying
        await copying.wait_for_others(self._target, _keys(runs))
        plan = plan_blocks(table, runs)
        results, absent = _settled(plan), [plan.keys[place] for place in plan.fresh]
        if not absent:
            return results, None
        with copying.bringing(self._target, absent):
            brought, failure = await self._bring(plan)
        return results | brought, failure

    async def _bring(self, plan: Plan) -> tuple[Results, PeerError | None]:
        """Fetch the fresh blocks of a plan, as far as there may be room."""
        keys = [plan.keys[place] for place in plan.fresh]
        costs = self._costs(plan.runs)
        asked = plan.fresh[: self._most_room([costs[place] for place in plan.fresh])]
        results = dict.fromkeys(keys[len(asked) :], NO_ROOM)
        if not asked:
            return results, None
        if not self._target.accepts:
            return dict.fromkeys(keys, FAILED), None

        async def reserve(skipped: Container[int]) -> tuple[Lease, ByNumber]:
            return await self._reserve(plan.runs, asked, skipped)

        space = plan.runs[0].space
        wanted = ReadTarget(
            tier=self._source,
            namespace=space.namespace.fingerprint,
            blocks=_sets(plan.runs, set(asked)),
        )
        fetched = Fetched()
        try:
            await fetch(
                self._node,
                self._peer,
                wanted,
                len(asked),
                reserve,
                memory=memory_of_write(self._target, space.namespace.block_bytes, CHUNK_BYTES),
                into=fetched,
            )
        finally:
            self._stored([keys[i] for i, got in fetched.results.items() if got == COPIED])
        self._heard |= fetched.heard
        results |= {keys[i]: result for i, result in fetched.results.items()}
        if fetched.failure is not None and not self._heard:
            return results, fetched.failure
        results = dict.fromkeys(keys, FAILED) | results
        told = list(results.values())
        self._target.counters.copies_failed += told.count(CORRUPT) + told.count(FAILED)
        return results, None

    def _mine(self) -> list[int]:
        """Return the slots of the blocks of this call, which are not evicted for others of it."""
        found = self._target.table.index.get_many(self._keys)
        return [slot for slot in found if slot is not None]

    def _most_blocks(self) -> int:
        """Return how many blocks go in one step: but a part of a tier that others need too."""
        target, limit = self._target, self._node.config.limits.hashes
        part = target.table.capacity // _STEP_PART
        return max(1, min(_STEP_BLOCKS, limit, _STEP_BYTES // max(target.slot_bytes, 1), part))

    def _costs(self, runs: Sequence[Run]) -> list[int]:
        """Return what each block of some runs takes of the target, as `costs_of` says."""
        occupancy = self._target.occupancy
        if occupancy.table.room is None:
            return [1] * sum(len(run.hashes) for run in runs)
        return [
            cost
            for run in runs
            for cost in [occupancy.cost(run.space, run.adapter_name)] * len(run.hashes)
        ]

    def _most_room(self, costs: Sequence[int]) -> int:
        """Return for how many of some blocks room could be made."""
        occupancy = self._target.occupancy
        room = fitting(occupancy, costs)
        return room if room == len(costs) else fitting(occupancy, costs, self._mine())

    async def _make_room(self, costs: Sequence[int]) -> None:
        """Make room for some blocks, or for the first of them."""
        if fitting(self._target.occupancy, costs) < len(costs):
            await self._node.tiering.demoter.room_in(self._target, costs, self._mine())

    async def _reserve(
        self, runs: Sequence[Run], asked: Sequence[int], skipped: Container[int]
    ) -> tuple[Lease, ByNumber]:
        """Take slots for blocks that the peer sends, and a lease on them by their number.

        Args:
            runs: The blocks of the step.
            asked: The places there of the blocks that the peer was asked for.
            skipped: The numbers of those that it does not send.

        Returns:
            The lease, and what became of the blocks that got no slot.
        """
        numbers = [i for i in range(len(asked)) if i not in skipped]
        costs = self._costs(runs)
        await self._make_room([costs[asked[i]] for i in numbers])
        # The peer and the room may have taken longer than the namespace was there.
        self._node.registry.check_known(self._runs[0].space.namespace)
        # Somebody else may have stored some of them meanwhile.
        plan = plan_blocks(self._target.table, runs)
        absent = set(plan.fresh)
        taken = [i for i in numbers if asked[i] in absent]
        taken = taken[: fitting(self._target.occupancy, [costs[asked[i]] for i in taken])]
        refused = {i: _OUTCOMES.get(plan.outcomes[asked[i]], NO_ROOM) for i in numbers}
        plan.fresh = [asked[i] for i in taken]
        slots = self._target.occupancy.take(len(taken))
        self._target.occupancy.enter(plan, slots)
        self._target.occupancy.policy.stamp(self._group, slots)
        sizes = [run.space.block_bytes for run in runs for _ in run.hashes]
        lease = self._lease([sizes[place] for place in asked], dict(zip(taken, slots, strict=True)))
        return lease, {i: result for i, result in refused.items() if i not in lease.slots}

    def _lease(self, block_bytes: Sequence[int], slots: dict[int, int]) -> Lease:
        node = self._node
        lease = Lease(
            node.random_bytes(_LEASE_ID_BYTES),
            f"copy from {self._peer.endpoint}",
            STORE,
            self._target,
            self._runs[0].space.namespace,
            b"",
            slots,
            block_bytes,
            {},
        )
        node.leases.open(lease, node.config.peer_timeout + LEASE_MARGIN)
        return lease

    def _stored(self, keys: Sequence[bytes]) -> None:
        """Do what the node does when blocks were stored."""
        node = self._node
        # Once the followers were sent off nothing may change unheard.
        if keys and not node.draining.is_set():
            node.tiering.completed(node.random_bytes(_LEASE_ID_BYTES), self._target, keys)


def cut_into_steps(runs: Sequence[Run], most: int) -> Iterator[list[Run]]:
    """Yield the blocks of runs in order, each block once, in steps of so many."""
    step: list[Run] = []
    room = most
    for first, last, run in _stretches(runs):
        begin = first
        while begin < last:
            end = min(last, begin + room)
            step.append(run.part(begin, end))
            room, begin = room - (end - begin), end
            if not room:
                yield step
                step, room = [], most
    if step:
        yield step


def _stretches(runs: Sequence[Run]) -> Iterator[tuple[int, int, Run]]:
    """Yield where blocks begin and end that no run named before."""
    seen: set[bytes] = set()
    for run in runs:
        keys, first = run.space.keys(run.hashes), 0
        for place, key in enumerate(keys):
            if key in seen:
                yield first, place, run
                first = place + 1
            seen.add(key)
        yield first, len(keys), run


def _keys(runs: Sequence[Run]) -> list[bytes]:
    """Return the keys of the blocks of runs in order, each once."""
    return list(dict.fromkeys(key for run in runs for key in run.space.keys(run.hashes)))


def _settled(plan: Plan) -> Results:
    """Return what is to be said of the blocks of a plan that need not come."""
    return {
        key: _OUTCOMES[outcome]
        for key, outcome in zip(plan.keys, plan.outcomes, strict=True)
        if outcome in _OUTCOMES
    }


def _sets(runs: Sequence[Run], wanted: Container[int]) -> list[BlockSet]:
    """Return the blocks at some places of runs as a request names them, in order."""
    sets: list[BlockSet] = []
    place = 0
    for run in runs:
        hashes = [each for i, each in enumerate(run.hashes, place) if i in wanted]
        place += len(run.hashes)
        if hashes:
            space = run.space
            sets.append(
                BlockSet(group=space.group, scope=space.scope, block_hashes=b"".join(hashes))
            )
    return sets
