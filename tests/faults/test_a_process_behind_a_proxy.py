"""A secondary's process that hangs or is killed costs a proxy its own blocks, and no more."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kvtier.client import NodeClient
from kvtier.client.proxy.settings import PromotionSettings
from tests.contract.conftest import Serve
from tests.contract.filed import FILES, files_tier
from tests.contract.proxied import Proxied
from tests.contract.support import Serving, cpu_tier, hash_set, namespace, payloads, run
from tests.contract.viewing import proxying
from tests.waiting import until

from .conftest import StartNode
from .processes import NodeProcess, ready

DEADLINE = 1.5
PAUSES = PromotionSettings(pause=3.0, longest_pause=3.0, stall=1.0)
# What waits for nobody takes less than this, in seconds, on a busy machine too.
AT_ONCE = 0.7
NOISE = 2.0
LIVENESS_SECONDS = 4.0


@asynccontextmanager
async def behind(
    serve: Serve, far: NodeProcess, **settings: Any
) -> AsyncIterator[tuple[Proxied, NodeClient]]:
    """A primary of this process before a secondary of another, and the secondary's client."""
    near = await serve(cpu_tier(64), peers=[far.endpoint])
    async with (
        NodeClient(far.endpoint) as client,
        proxying(near.client, [client], **settings) as (proxy, view),
    ):
        await client.register_namespace(namespace())
        await view.settle(client)
        yield Proxied([near], proxy, view), client


async def put(client: NodeClient, node: Serving, *blocks: object, tier: str = "cpu0") -> None:
    await client.store(tier, node.namespace, [run(*blocks)], payloads(*blocks))


async def timed(work: Awaitable[Any]) -> tuple[Any, float]:
    """Return what something answered, and how long it took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    return await work, loop.time() - began


@pytest.mark.slow
async def test_a_load_from_one_that_hangs_ends_at_its_deadline(
    start_node: StartNode, serve: Serve
) -> None:
    """What the primary has comes at once; then the other is left alone, until it answers again."""
    far = await start_node()
    async with behind(serve, far, promotions=PAUSES) as (whole, client):
        await whole.primary.store("here")
        await put(client, whole.primary, "there")
        await whole.view.settle(client)

        far.process.send_signal(signal.SIGSTOP)
        hung = asyncio.create_task(timed(whole.load("there", deadline=DEADLINE)))
        both = asyncio.create_task(timed(whole.load("there", "here", deadline=DEADLINE)))
        here, at_once = await timed(whole.load("here"))
        found, looked = await timed(whole.look_up("here"))
        (missing, waited), (part, waited_too) = await hung, await both
        again, skipped = await timed(whole.load("there", "here", deadline=DEADLINE))
        _, went_on = await timed(
            whole.proxy.store("cpu0", whole.namespace, [run("new")], payloads("new"))
        )
        far.process.send_signal(signal.SIGCONT)
        async with asyncio.timeout(20):
            while await whole.load("there") != payloads("there"):  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.05)

        assert (here, found) == (payloads("here"), ["HIT"])
        assert (missing, part) == ([None], [None, *payloads("here")])
        assert again == [None, *payloads("here")]
        assert max(at_once, looked, skipped, went_on) < AT_ONCE
        assert max(waited, waited_too) < DEADLINE + NOISE
        await until(lambda: not len(whole.primary.node.leases))


@pytest.mark.slow
async def test_one_that_is_killed_is_not_spoken_of_and_comes_back_as_it_is(
    start_node: StartNode, serve: Serve, tmp_path: Path
) -> None:
    """A load is a quick miss meanwhile; what lay in its files is found again, in memory nothing."""
    far = await start_node(tiers=[cpu_tier(64), files_tier(tmp_path / "files")])
    async with behind(serve, far, promotions=PAUSES) as (whole, client):
        await put(client, whole.primary, "memory")
        await put(client, whole.primary, "files", tier=FILES)
        await whole.view.settle(client)
        name = (await client.get_node()).node_id
        before = await whole.look_up("memory", "files")

        await far.kill()
        killed = asyncio.get_running_loop().time()
        lost, quickly = await timed(whole.load("memory", deadline=DEADLINE))
        await until(lambda: whole.proxy.members.secondaries[0].down)
        took = asyncio.get_running_loop().time() - killed
        meanwhile = await whole.look_up("memory", "files")
        left_out, at_once = await timed(whole.load("memory", "files"))
        await start_node(far)
        await ready(client)
        await until(lambda: whole.proxy.members.trusts(name))
        await whole.view.settle(client)
        after = await whole.look_up("memory", "files")

        assert before == ["HIT", "HIT"]
        assert lost == [None]
        assert meanwhile == ["MISS", "MISS"]
        assert left_out == [None, None]
        assert quickly < DEADLINE + NOISE
        assert took < LIVENESS_SECONDS
        assert at_once < AT_ONCE
        assert after == ["MISS", "HIT"]
        known = whole.proxy.index.blocks(name, FILES)
        assert {key.block_hash for key in known} == hash_set(["files"])
        assert whole.proxy.index.blocks(name, "cpu0") == set()
        async with asyncio.timeout(20):
            while await whole.load("files") != payloads("files"):  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.05)
