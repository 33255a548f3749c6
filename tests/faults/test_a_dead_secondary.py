"""A node that died stays in nobody's way, and comes back as what it then is."""

import asyncio
from contextlib import suppress

import pytest

from kvtier.client import KvtierError, NodeClient, TieringProxy, UnavailableError
from kvtier.v1.event_service_pb2 import SourceState
from kvtier.v1.result_pb2 import LookupResult
from tests.contract.support import blocks_of, hash_set, namespace, payloads, run, words
from tests.contract.viewing import View, proxying

from .conftest import StartNode
from .processes import reached

# An answer of the primary and a look into memory; a busy machine takes its time.
QUICK_SECONDS = 2.0
RECOVERY_SECONDS = 5.0


async def store(client: NodeClient, *blocks: object) -> bytes:
    """Store blocks; the connection for bulk may take a moment to come back."""
    fingerprint = await client.register_namespace(namespace())
    for block in blocks:
        async with asyncio.timeout(RECOVERY_SECONDS):
            while True:
                with suppress(UnavailableError):
                    await client.store("cpu0", fingerprint, [run(block)], payloads(block))
                    break
                await asyncio.sleep(0.05)
    return fingerprint


async def looked_up(proxy: TieringProxy, fingerprint: bytes, block: object) -> str:
    async with asyncio.timeout(QUICK_SECONDS):
        (found,) = await proxy.lookup(fingerprint, [blocks_of(block)])
    return words(LookupResult, found.results)[0]


def state(view: View, name: str) -> str:
    told = [m.state.source for m in view.messages if m.node_id == name and m.state.source]
    return SourceState.Name(told[-1]).removeprefix("SOURCE_STATE_") if told else ""


@pytest.mark.slow
async def test_a_dead_secondary_is_no_answer_and_no_hold_up(start_node: StartNode) -> None:
    """Answers stay quick; a load says what is wrong; what it had is not found, then nor later."""
    near, far = await start_node(), await start_node()
    async with (
        NodeClient(near.endpoint) as primary,
        NodeClient(far.endpoint) as secondary,
        proxying(primary, [secondary]) as (proxy, view),
    ):
        fingerprint = await store(primary, "near")
        await store(secondary, "far")
        name = (await secondary.get_node()).node_id
        await view.settle(secondary)
        assert await looked_up(proxy, fingerprint, "far") == "HIT"

        await far.kill()
        answers = [await looked_up(proxy, fingerprint, "far") for _ in range(20)]
        with pytest.raises(UnavailableError):
            async with asyncio.timeout(QUICK_SECONDS):
                await secondary.load("cpu0", fingerprint, [blocks_of("far")])
        await view.until(lambda: state(view, name) == "DOWN")
        after = await looked_up(proxy, fingerprint, "far")
        near_by = await looked_up(proxy, fingerprint, "near")

        await start_node(far)
        await reached(secondary)
        await view.until(lambda: state(view, name) == "LIVE")
        empty = {key.block_hash for key in proxy.index.blocks(name, "cpu0")}
        back = await looked_up(proxy, fingerprint, "far")
        await store(secondary, "new")
        await view.settle(secondary)
        mirrored = {key.block_hash for key in proxy.index.blocks(name, "cpu0")}
        listed = {block.block_hash async for block in secondary.list_blocks()}

    assert set(answers) <= {"HIT", "RETRY", "MISS"}
    assert (after, near_by) == ("MISS", "HIT")
    assert (empty, back) == (set(), "MISS")
    assert mirrored == listed == hash_set(["new"])


@pytest.mark.slow
async def test_a_dead_primary_is_an_error_and_no_hold_up(start_node: StartNode) -> None:
    """Who asks is told at once, and the secondary's events go on."""
    near, far = await start_node(), await start_node()
    async with (
        NodeClient(near.endpoint) as primary,
        NodeClient(far.endpoint) as secondary,
        proxying(primary, [secondary]) as (proxy, view),
    ):
        fingerprint = await store(primary, "near")
        await view.settle(primary)
        await near.kill()

        with pytest.raises(KvtierError) as caught:
            await looked_up(proxy, fingerprint, "near")
        await store(secondary, "far")
        await view.settle(secondary)
        await start_node(near)
        await reached(primary)
        await store(primary, "new")
        await view.settle(primary)
        found = await looked_up(proxy, fingerprint, "far")

    assert isinstance(caught.value, UnavailableError)
    assert near.endpoint in str(caught.value)
    assert found == "HIT"
