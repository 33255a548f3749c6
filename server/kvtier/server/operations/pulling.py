"""CopyBlocks from a tier of another node."""

import re
from collections.abc import AsyncGenerator, Iterator, Sequence

from kvtier.server.leases import STORE, End, Lease
from kvtier.server.node import Node
from kvtier.server.operations.fetching import LEASE_MARGIN, fetch
from kvtier.server.peers.peer import PeerError
from kvtier.server.tiering.carrier import COPIED, CORRUPT, FAILED, NO_ROOM, PENDING, PRESENT
from kvtier.server.tiering.links import most_blocks
from kvtier.server.tiers import offer
from kvtier.server.tiers.offer import Plan, Run, check_parents, plan_blocks
from kvtier.server.tiers.tier import Tier
from kvtier.server.transfers.limit import transfer
from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.copying_pb2 import PeerTier
from kvtier.v1.result_pb2 import CopyResult
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


def pull(
    node: Node, source: PeerTier, target: Tier, runs: Sequence[Run]
) -> AsyncGenerator[Results, None]:
    """Copy blocks from a peer step by step; yield what became of some of them.

    A step takes room for its own blocks only, and what has not come when the caller leaves is given
    back.

    Raises:
        KvtierError: From here: INVALID_ARGUMENT or PERMISSION_DENIED. From a step: UNAVAILABLE when
            the node drains or the peer was never reached, NOT_FOUND or RESOURCE_EXHAUSTED when the
            peer said so, or there are too many transfers.
    """
    if not _TIER_NAME.fullmatch(source.tier):
        raise invalid(
            f"from_peer.tier is {quote(source.tier)}; the name of a tier has 1 to 63 of a-z, 0-9 "
            "and '-'"
        )
    check_parents(target.table, runs)
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
            for step in cut_into_steps(self._runs, most_blocks(self._target, self._target)):
                self._node.refuse_when_closing()
                results, failure = await self._step(step)
                if results:
                    yield results
                if failure is not None:
                    raise failure

    async def _step(self, runs: Sequence[Run]) -> tuple[Results, PeerError | None]:
        """Bring the blocks of a step; return what is known of them, and why not of all."""
        table, copying = self._target.table, self._node.tiering.copying
        await copying.wait_for_others(self._target, _keys(runs))
        plan = plan_blocks(table, runs)
        results, absent = _settled(plan), [plan.keys[place] for place in plan.fresh]
        if not absent:
            return results, None
        with copying.bringing(self._target, absent):
            room = await self._room(len(absent))
            # Somebody else may have stored some of them while room was made.
            plan = plan_blocks(table, runs)
            wanted = [place for place in plan.fresh if plan.keys[place] not in results]
            results = _settled(plan) | results
            results |= {plan.keys[place]: NO_ROOM for place in wanted[room:]}
            plan.fresh = wanted[:room]
            brought, failure = await self._bring(plan) if plan.fresh else ({}, None)
        return results | brought, failure

    async def _room(self, count: int) -> int:
        """Make room for so many blocks, and none by evicting blocks of this call; return it."""
        table = self._target.table
        if table.free >= count:
            return count
        mine = [slot for slot in table.index.get_many(self._keys) if slot is not None]
        return await self._node.tiering.demoter.room_in(self._target, count, mine)

    async def _bring(self, plan: Plan) -> tuple[Results, PeerError | None]:
        """Fetch the fresh blocks of a plan, for which there is room."""
        node, keys = self._node, [plan.keys[place] for place in plan.fresh]
        lease = self._reserve(plan)
        try:
            fetched = await fetch(node, self._peer, self._source, lease, _sets(plan))
        finally:
            if node.leases.get(lease.id) is lease:
                node.leases.let_go(lease, End.COMPLETED)
        self._heard |= fetched.heard
        results = {keys[place]: result for place, result in fetched.results.items()}
        self._after(lease, results)
        if fetched.failure is None or not self._heard:
            return results, fetched.failure
        self._target.counters.copies_failed += len(keys) - len(results)
        return dict.fromkeys(keys, FAILED) | results, None

    def _reserve(self, plan: Plan) -> Lease:
        """Take slots for the fresh blocks of a plan, and a lease on them by their number there."""
        node, occupancy = self._node, self._target.occupancy
        slots = occupancy.take(len(plan.fresh))
        occupancy.enter(plan, slots)
        occupancy.policy.stamp(self._group, slots)
        sizes = [run.space.block_bytes for run in plan.runs for _ in run.hashes]
        lease = Lease(
            node.random_bytes(_LEASE_ID_BYTES),
            f"copy from {self._peer.endpoint}",
            STORE,
            self._target,
            plan.runs[0].space.namespace,
            b"",
            dict(enumerate(slots)),
            [sizes[place] for place in plan.fresh],
            {},
        )
        node.leases.open(lease, node.config.peer_timeout + LEASE_MARGIN)
        return lease

    def _after(self, lease: Lease, results: Results) -> None:
        """Do what the node does when blocks were stored."""
        copied = [key for key, result in results.items() if result == COPIED]
        self._target.counters.copies_failed += list(results.values()).count(CORRUPT)
        self._node.tiering.write_through(lease.id, self._target, copied)
        self._node.tiering.after_store(self._target)


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
    return [key for run in runs for key in run.space.keys(run.hashes)]


def _settled(plan: Plan) -> Results:
    """Return what is to be said of the blocks of a plan that need not come."""
    return {
        key: _OUTCOMES[outcome]
        for key, outcome in zip(plan.keys, plan.outcomes, strict=True)
        if outcome in _OUTCOMES
    }


def _sets(plan: Plan) -> list[BlockSet]:
    """Return the fresh blocks of a plan as a request names them, in order."""
    sets: list[BlockSet] = []
    wanted, place = set(plan.fresh), 0
    for run in plan.runs:
        hashes = [each for i, each in enumerate(run.hashes, place) if i in wanted]
        place += len(run.hashes)
        if hashes:
            space = run.space
            sets.append(
                BlockSet(group=space.group, scope=space.scope, block_hashes=b"".join(hashes))
            )
    return sets
