"""Plays the steps of a scenario against a node, over gRPC, through the client."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kvtier.client import ExhaustedError, StoreReport
from kvtier.v1.block_pb2 import BlockRun, BlockSet, Lease
from kvtier.v1.event_service_pb2 import BlockRemoved, BlockStored
from kvtier.v1.result_pb2 import CompleteResult, LookupResult, StoreOutcome, WriteResult
from kvtier.v1.tier_service_pb2 import (
    PrepareStoreResponse,
)
from kvtier.wire.hashes import split_hashes
from tests.contract.follower import Follower
from tests.contract.support import (
    BLOCK_BYTES,
    TOKENS,
    WIDTH,
    Serving,
    block_hash,
    payload,
    words,
)
from tests.contract.ways import Store

from .keys import Key, hashes_of, sets_of

TIER = "cpu0"
Step = Mapping[str, Any]


class Reserved(NamedTuple):
    """An open store lease: the keys of its offer, and those of them that it is to write."""

    lease: Lease
    offer: Sequence[Key]
    wanted: frozenset[Key]


class Pinned(NamedTuple):
    """An open load lease."""

    lease: Lease
    request: str
    keys: frozenset[Key]


class Scenario:
    """One run of a scenario: a node, a follower of it, and the leases that are open.

    Args:
        node: A node with one host tier.
        follower: Follows it.
        store: How a `store` step stores.
    """

    def __init__(self, node: Serving, follower: Follower, store: Store) -> None:
        self._node = node
        self._follower = follower
        self._store_way = store
        self._positions: dict[str, dict[Key, int]] = {}
        self._stores: list[Reserved] = []
        self._loads: list[Pinned] = []
        self._names: dict[bytes, int] = {}

    async def play(self, step: Step) -> None:
        """Do one step, and compare what comes of it with what the step expects."""
        keys = [Key.read(key) for key in step.get("keys", ())]
        for key in keys:
            self._names[block_hash(key.number)] = key.number
        await getattr(self, f"_{step['op']}")(step, keys)

    async def _pos(self, step: Step, _: Sequence[Key]) -> None:
        self._positions[step["request"]] = {
            Key.read(key): position for key, position in step["positions"].items()
        }

    async def _prepare_store(self, step: Step, keys: Sequence[Key]) -> None:
        offer = (TIER, self._node.namespace, [self._run(step, keys)])
        before = await self._node.state(TIER)
        try:
            answer = await self._node.client.prepare_store(*offer, request_id=_request(step))
        except ExhaustedError:
            assert step["expect"] is None
            assert await self._node.state(TIER) == before
            return
        wanted = self._check_offer(step, keys, answer)
        self._stores.append(Reserved(answer.lease, keys, frozenset(wanted)))

    async def _complete_store(self, step: Step, keys: Sequence[Key]) -> None:
        for reserved in [each for each in self._stores if each.wanted & set(keys)]:
            self._stores.remove(reserved)
            await self._complete(reserved, success=step.get("success", True))

    async def _store(self, step: Step, keys: Sequence[Key]) -> None:
        report = await self._store_way(
            self._node.client,
            TIER,
            self._node.namespace,
            [self._run(step, keys)],
            [payload(key) for key in keys],
            request_id=_request(step),
        )
        wanted = self._check_offer(step, keys, report)
        assert ["STORED" if key in wanted else "UNSPECIFIED" for key in keys] == words(
            WriteResult, report.results
        )

    async def _prepare_load(self, step: Step, keys: Sequence[Key]) -> None:
        answer = await self._node.client.prepare_load(
            TIER, self._node.namespace, sets_of(keys), request_id=_request(step)
        )
        self._loads.append(Pinned(answer.lease, _request(step), frozenset(keys)))

    async def _complete_load(self, step: Step, keys: Sequence[Key]) -> None:
        for pinned in [each for each in self._loads if each.request == _request(step)]:
            if pinned.keys & set(keys):
                self._loads.remove(pinned)
                await self._node.client.complete_load(pinned.lease)

    async def _touch(self, step: Step, keys: Sequence[Key]) -> None:
        await self._node.client.touch(
            self._node.namespace, sets_of(keys), request_id=_request(step)
        )

    async def _lookup(self, step: Step, keys: Sequence[Key]) -> None:
        answer = await self._node.client.lookup(
            self._node.namespace, sets_of(keys), include_blocks=True
        )
        found = [result for chain in answer.chains for result in chain.results]
        assert step["expect"] == words(LookupResult, found)

    async def _events(self, step: Step, _: Sequence[Key]) -> None:
        told: list[dict[str, list[int | str]]] = []
        for batch in await self._follower.batches():
            for kind, events in (("removed", batch.removed), ("stored", batch.stored)):
                keys = [key for event in events for key in self._told(event)]
                if keys:
                    told.append({kind: keys})
        assert step["expect"] == told

    async def _complete(self, reserved: Reserved, *, success: bool) -> None:
        client = self._node.client
        if success and reserved.wanted:
            await client.write_blocks(
                reserved.lease,
                {
                    place: payload(key)
                    for place, key in enumerate(reserved.offer)
                    if key in reserved.wanted
                },
                [BLOCK_BYTES] * len(reserved.offer),
            )
        answer = await client.complete_store(reserved.lease, failed=not success)
        done = "STORED" if success else "FAILED"
        expected = [done if key in reserved.wanted else "NOT_LEASED" for key in reserved.offer]
        assert expected == words(CompleteResult, answer.results)

    def _run(self, step: Step, keys: Sequence[Key]) -> BlockRun:
        """Offer keys as one run; a run that does not start at 0 gets a parent that nobody has."""
        positions = self._positions.get(_request(step), {})
        start = min((positions[key] for key in keys if key in positions), default=0)
        expected = [start + TOKENS * place for place in range(len(keys))]
        assert [positions.get(key, at) for key, at in zip(keys, expected, strict=True)] == expected
        (group,) = {key.group for key in keys}
        return BlockRun(
            group=group,
            block_hashes=hashes_of(keys),
            start_position=start,
            parent_block_hash=block_hash(("parent of", keys[0])) if start else b"",
        )

    def _check_offer(
        self, step: Step, keys: Sequence[Key], answer: PrepareStoreResponse | StoreReport
    ) -> list[Key]:
        """Compare the answer to an offer with what is expected; return the keys to write."""
        expected = step.get("expect", {})
        assert expected is not None, "the offer should have been refused"
        outcomes = zip(keys, answer.outcomes, strict=True)
        wanted = [key for key, got in outcomes if got == StoreOutcome.STORE_OUTCOME_WRITE]
        evicted = [key for each in answer.evicted for key in self._told(each.blocks)]
        told = {"store": [key.write() for key in wanted], "evicted": evicted}
        assert {**told, **expected} == told
        return wanted

    def _told(self, event: BlockStored | BlockRemoved | BlockSet) -> list[int | str]:
        hashes = split_hashes(event.block_hashes, WIDTH)
        return [Key(event.group, self._names[each]).write() for each in hashes]


def _request(step: Step) -> str:
    request: str = step.get("request", "")
    return request
