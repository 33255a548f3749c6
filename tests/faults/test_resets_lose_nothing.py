"""Connections that are broken again and again cost a follower nothing but time."""

import pytest

from kvtier.client import Backoff, NodeClient, Watch
from tests.contract.conftest import Serve
from tests.contract.folding import listed
from tests.contract.support import cpu_tier, gpu_tier
from tests.contract.viewing import View
from tests.contract.writing import writing

from .relay import Relay

RESETS = 200


@pytest.mark.slow
async def test_one_watch_over_many_resets_makes_one_recording(serve: Serve) -> None:
    """Under constant writes every sequence comes once and in order, from the first snapshot on."""
    node = await serve(gpu_tier(64), cpu_tier(256))
    async with (
        Relay(node.endpoint) as relay,
        NodeClient(relay.endpoint) as client,
        Watch(client, backoff=Backoff(base=0.01, cap=0.01)) as watch,
    ):
        view = View(watch)
        async with writing(node, "gpu0", "cpu0"):
            # A snapshot that is broken off starts over, as it should.
            await view.until(lambda: any(m.HasField("synced") for m in view.messages))
            for turn in range(RESETS):
                seen = len(view.messages)
                await view.until(
                    lambda: any(m.HasField("batches") for m in view.messages[seen:])  # noqa: B023
                )
                relay.reset()
                await view.until(lambda: watch.breaks > turn)  # noqa: B023
        await view.settle(node.client)
        name = (await node.client.get_node()).node_id
        await view.leave()

    told = [batch.sequence for each in view.messages for batch in each.batches.batches]
    assert told == list(range(told[0], told[0] + len(told)))
    assert sum(each.HasField("reset") for each in view.messages) == 1
    assert view.held(name) == set(await listed(node.client))
    assert watch.gaps == 0
