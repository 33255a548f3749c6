"""What is told again later is, byte for byte, what was told live."""

import pytest

from kvtier.v1.event_service_pb2 import EventView, WatchEventsResponse

from .conftest import Serve
from .folding import Fold, listed
from .following import following
from .support import (
    TOKENS,
    Serving,
    blocks_of,
    cpu_tier,
    gpu_tier,
    namespace,
    payloads,
    run,
)


async def churn(node: Serving) -> None:
    """Make 200 events of every kind: two models, two tiers, groups, scopes and adapters."""
    keeping = await node.client.register_namespace(namespace("qwen", keep_token_ids=True))
    for step in range(60):
        tier = "gpu0" if step % 3 else "cpu0"
        ids = range(step, step + 2 * TOKENS)
        first = run((step, 0), (step, 1), group=step % 2, scope=b"t" * (step % 4), token_ids=ids)
        first.adapter_name = f"adapter {step % 2}"
        offer = [first, run((step, 3), after=(step, 2))]
        blocks = payloads((step, 0), (step, 1), (step, 3))
        where = keeping if step % 2 else node.namespace
        await node.client.store(tier, where, offer, blocks)
        if step % 10 == 7:
            await node.client.delete(where, [blocks_of((step, 3))])
        if step % 20 == 19:
            await node.client.clear("cpu0", where)


def origin(message: WatchEventsResponse) -> tuple[str, int]:
    return message.node_id, message.epoch


@pytest.mark.parametrize("view", [EventView.EVENT_VIEW_BASIC, EventView.EVENT_VIEW_FULL])
async def test_a_replay_from_the_start_is_the_live_stream(
    serve: Serve, view: EventView.ValueType
) -> None:
    """Node, life of the log, sequence, tier, namespace and every field are the same."""
    node = await serve(gpu_tier(16), cpu_tier(16))
    async with following(node.endpoint, view=view) as live:
        await churn(node)
        await live.settle(node.client)
        start = Fold.at_the_start(node.node.node_id, node.node.log.epoch)
        async with following(node.endpoint, fold=start, view=view) as later:
            await later.settle(node.client)

    encoded = [[batch.SerializeToString() for batch in each.batches] for each in (live, later)]
    assert encoded[0] == encoded[1]
    assert [batch.sequence for batch in live.batches] == list(range(1, len(live.batches) + 1))
    assert len(live.fold.told) > 200
    assert {origin(message) for message in (*live.messages, *later.messages)} == {
        (node.node.node_id, node.node.log.epoch)
    }
    described = [{m.namespace.name for m in each.messages} - {""} for each in (live, later)]
    assert described == [{"llama", "qwen"}] * 2
    assert later.kinds.count("reset") == 0


@pytest.mark.parametrize("view", [EventView.EVENT_VIEW_BASIC, EventView.EVENT_VIEW_FULL])
async def test_a_snapshot_says_of_each_block_what_its_store_said(
    serve: Serve, view: EventView.ValueType
) -> None:
    """Parents, positions, adapters and token ids do not depend on when a follower came."""
    node = await serve(gpu_tier(16), cpu_tier(16))
    async with following(node.endpoint, view=view) as live:
        await churn(node)
        await live.settle(node.client)
        async with following(node.endpoint, view=view) as late:
            pass

    assert late.fold.view == live.fold.view == await listed(node.client)
    assert late.fold.tokens == live.fold.tokens
    assert bool(live.fold.tokens) == (view == EventView.EVENT_VIEW_FULL)
    assert not late.batches


async def test_token_ids_are_told_only_where_the_namespace_keeps_them(serve: Serve) -> None:
    """A follower that asks for token ids gets those of one model and not of the other."""
    node = await serve(gpu_tier(16), cpu_tier(16))
    async with following(node.endpoint, view=EventView.EVENT_VIEW_FULL) as live:
        await churn(node)
        await live.settle(node.client)

    everywhere = {key.namespace for key in live.fold.view}
    assert {key.namespace for key in live.fold.tokens} == everywhere - {node.namespace}
    assert {len(ids) for ids in live.fold.tokens.values()} == {TOKENS}
