"""Events that were lost on the way are noticed by their numbers, and fetched."""

from typing import Any

import pytest

from kvtier.client import NodeClient, Watch
from kvtier.v1.event_service_pb2 import ResetReason, WatchEventsResponse
from kvtier.v1.result_pb2 import LookupResult
from tests.contract.conftest import Serve
from tests.contract.folding import listed
from tests.contract.support import Serving, blocks_of, cpu_tier, hash_set, words
from tests.contract.viewing import View, proxying, watch
from tests.waiting import until

from .losing import losing

LOST = range(11, 15)


def lost(message: WatchEventsResponse) -> bool:
    return any(batch.sequence in LOST for batch in message.batches.batches)


def sequences(view: View) -> list[int]:
    return [batch.sequence for each in view.messages for batch in each.batches.batches]


def resets(view: View) -> list[str]:
    told = [m.reset.reason for m in view.messages if m.HasField("reset")]
    return [ResetReason.Name(reason).removeprefix("RESET_REASON_") for reason in told]


async def store(node: Serving, view: View | None, *blocks: int) -> None:
    """Store block after block; a batch is told before the next one is made."""
    for block in blocks:
        await node.store(block)
        if view is not None:
            await view.until(lambda: sequences(view)[-1:] == [block])  # noqa: B023


@pytest.mark.parametrize(
    ("max_batches", "reasons"),
    [(1000, ["NO_POSITION"]), (16, ["NO_POSITION", "COMPACTED"])],
    ids=["still known", "forgotten"],
)
async def test_what_was_lost_is_fetched(serve: Serve, max_batches: int, reasons: list[str]) -> None:
    """From the log while it has it, else by a snapshot; what lies behind the gap does not come."""
    events: Any = {"max_batches": max_batches, "linger": 0, "heartbeat_interval": 0.2}
    node = await serve(cpu_tier(64), events=events)
    async with losing(node.endpoint) as way, NodeClient(way.endpoint) as client:
        way.lose = lost
        async with watch(client) as messages:
            view = View(messages)
            await view.until(lambda: resets(view))
            await store(node, view, *range(1, LOST.start))
            await store(node, None, *LOST)
            await store(node, None, LOST.stop)
            await until(lambda: len(way.requests) == 2)
            before = sequences(view)
            await store(node, None, *range(LOST.stop + 1, 100))
            way.opens.set()
            await view.settle(node.client)
            await view.leave()

    (asked,) = way.requests[1].positions
    told = sequences(view)
    assert before == list(range(1, LOST.start))
    assert asked.position.sequence == LOST.start - 1
    assert resets(view) == reasons
    assert told == sorted(set(told))
    head = (await node.client.get_node()).head.sequence
    assert (told == list(range(1, head + 1))) == (len(reasons) == 1)
    assert messages.gaps == 1
    assert view.held((await node.client.get_node()).node_id) == set(await listed(node.client))
    assert view.index.bad_events == 0


@pytest.mark.parametrize("max_batches", [1000, 16], ids=["still known", "forgotten"])
async def test_a_proxy_makes_good_what_it_missed_of_a_secondary(
    serve: Serve, max_batches: int
) -> None:
    """Meanwhile it says RETRY of what it cannot know; then it knows what the node lists again."""
    events: Any = {"max_batches": max_batches, "linger": 0, "heartbeat_interval": 0.2}
    near, far = await serve(cpu_tier(64)), await serve(cpu_tier(64), events=events)
    watches: list[Watch] = []

    def noted(client: NodeClient) -> Watch:
        watches.append(watch(client))
        return watches[-1]

    async with (
        losing(far.endpoint) as way,
        NodeClient(way.endpoint) as client,
        proxying(near.client, [client], watch=noted) as (proxy, view),
    ):
        way.lose = lost
        name = far.node.node_id
        await until(lambda: proxy.members.trusts(name))
        await store(far, view, *range(1, LOST.start))
        await store(far, None, *LOST, LOST.stop)
        await until(lambda: len(way.requests) == 2)
        (during,) = await proxy.lookup(near.namespace, [blocks_of(1, "nowhere")])
        trusted = proxy.members.trusts(name)
        await store(far, None, *range(LOST.stop + 1, 500))
        way.opens.set()
        await view.settle(far.client)
        (after,) = await proxy.lookup(near.namespace, [blocks_of(499, 1, "nowhere")])
        held = {key.block_hash for key in proxy.index.blocks(name, "cpu0")}

    assert not trusted
    assert words(LookupResult, during.results) == ["RETRY", "RETRY"]
    assert words(LookupResult, after.results) == ["HIT", "MISS", "MISS"]
    assert held == await far.held() == hash_set(range(436, 500))
    assert {key.block_hash for key in view.held(name)} == held
    assert [each.gaps for each in watches] == [0, 1]
    assert proxy.index.bad_events == 0
