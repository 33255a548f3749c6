"""Whoever joins late gets one snapshot, and the events go on exactly where it stands."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from .conftest import Serve
from .folding import listed
from .following import Following, following
from .support import Serving, cpu_tier, gpu_tier
from .writing import writing

# A log that forgets soon, and small messages: a snapshot takes many, and events come between them.
EVENTS = {"max_batches": 256, "message_bytes": "1KiB", "linger": 0, "heartbeat_interval": 0.1}
CHAIN, CHAINS = 20, 500


async def wear_out(node: Serving) -> None:
    """Fill the host tier until the log has forgotten its beginning."""
    for chain in range(CHAINS):
        await node.store(*((chain, place) for place in range(CHAIN)))
    assert node.node.log.oldest > 0


def check_seam(follower: Following) -> None:
    """One reset, one synced, and live batches that go on from it without a gap."""
    kinds = follower.kinds
    assert kinds.count("reset") == 1
    assert kinds.count("synced") == 1
    assert follower.fold.resets == ["NO_POSITION"]
    synced = follower.messages[kinds.index("synced")]
    after = [m for m in follower.messages[kinds.index("synced") :] if m.HasField("batches")]
    live = [batch.sequence for message in after for batch in message.batches.batches]
    assert live == list(range(synced.through + 1, synced.through + 1 + len(live)))
    assert live


async def test_late_joiners_get_one_snapshot_and_no_gap(serve: Serve) -> None:
    """Under constant change, each one's snapshot is exact at the position where it ends."""
    node = await serve(gpu_tier(512), cpu_tier(CHAIN * CHAINS + 100), events=EVENTS)
    await wear_out(node)
    async with writing(node, "gpu0", "cpu0") as writers, AsyncExitStack() as stack:
        followers = [await stack.enter_async_context(following(node.endpoint)) for _ in range(4)]
        joined = writers.calls
        for each in followers:
            await each.until(lambda: writers.calls > joined + 20)

    for each in followers:
        check_seam(each)
        assert each.kinds.count("snapshot") > 4
        async with following(node.endpoint, fold=each.fold) as again:
            await again.settle(node.client)
        assert "reset" not in again.kinds
        assert again.fold.view == await listed(node.client)


@pytest.mark.parametrize("wanted", [{"tiers": ["gpu0"]}, {"media": [2]}], ids=str)
async def test_a_late_joiner_with_a_filter_gets_its_part_exactly(
    serve: Serve, wanted: dict[str, Any]
) -> None:
    """Positions are the log's, whatever the filter leaves out."""
    node = await serve(gpu_tier(64), cpu_tier(64), events=EVENTS)
    async with writing(node, "gpu0", "cpu0") as writers:
        await asyncio.sleep(0.1)
        async with following(node.endpoint, **wanted) as follower:
            joined = writers.calls
            await follower.until(lambda: writers.calls > joined + 20)
    async with following(node.endpoint, fold=follower.fold, **wanted) as again:
        await again.settle(node.client)

    tier = "gpu0" if "tiers" in wanted else "cpu0"
    assert follower.fold.resets == ["NO_POSITION"]
    assert again.fold.view == await listed(node.client, tier)
