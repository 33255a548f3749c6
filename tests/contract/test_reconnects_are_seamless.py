"""However often a follower comes and goes, it is told each change once, and in order."""

import asyncio
import random

import pytest

from kvtier.client import Watch
from kvtier.v1.event_service_pb2 import NodePosition

from .conftest import Serve
from .folding import Fold, listed
from .following import following
from .support import cpu_tier, gpu_tier
from .writing import writing

RECONNECTS = 200


@pytest.mark.slow
async def test_two_hundred_reconnects_make_one_recording(serve: Serve) -> None:
    """Each stream goes on after the last message of the one before, with writers at full speed."""
    node = await serve(gpu_tier(64), cpu_tier(256))
    fold, recorded = Fold(), list[int]()
    async with writing(node, "gpu0", "cpu0"):
        for turn in range(RECONNECTS):
            async with following(node.endpoint, fold=fold) as follower:
                wanted = turn % 4
                await follower.until(lambda: len(follower.batches) >= wanted)  # noqa: B023
            recorded += [batch.sequence for batch in follower.batches]
    async with following(node.endpoint, fold=fold) as follower:
        await follower.settle(node.client)
    recorded += [batch.sequence for batch in follower.batches]

    assert recorded == list(range(recorded[0], recorded[0] + len(recorded)))
    assert len(recorded) > RECONNECTS
    assert fold.resets == ["NO_POSITION"]
    assert fold.view == await listed(node.client)


async def test_a_watch_that_is_made_anew_goes_on_where_the_last_one_ended(serve: Serve) -> None:
    """The client's own watch hands its place to the next one, wherever it was left."""
    node = await serve(gpu_tier(64), cpu_tier(256))
    fold, recorded, positions = Fold(), list[int](), list[NodePosition]()
    rng = random.Random(4)
    async with writing(node, "gpu0", "cpu0"):
        for _ in range(50):
            fold.reopen()
            async with Watch(node.client, positions=positions) as watch:
                left = rng.randrange(1, 12)
                while left or not fold.synced:
                    message = await asyncio.wait_for(anext(watch), 10)
                    if message.state.source:
                        continue
                    fold.apply(message)
                    recorded += [batch.sequence for batch in message.batches.batches]
                    left = max(0, left - 1)
                positions = watch.positions
    async with following(node.endpoint, fold=fold) as follower:
        await follower.settle(node.client)
    recorded += [batch.sequence for batch in follower.batches]

    assert recorded == list(range(recorded[0], recorded[0] + len(recorded)))
    assert fold.resets == ["NO_POSITION"]
    assert fold.view == await listed(node.client)
