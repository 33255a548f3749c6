"""A peer process that hangs or is killed holds nobody up, and what came from it whole is kept."""

import asyncio
import signal
from collections.abc import Awaitable
from typing import Any

import pytest

from kvtier.client import NodeClient, UnavailableError
from kvtier.v1.block_pb2 import BlockRun
from tests.contract.conftest import Follow, Serve, follow
from tests.contract.copying import Copied, copy_blocks, nothing_is_held
from tests.contract.folding import listed
from tests.contract.support import (
    Serving,
    blocks_of,
    cpu_tier,
    hash_set,
    namespace,
    payload,
    payloads,
    run,
)

from .conftest import StartNode
from .processes import NodeProcess

__all__ = ["follow"]

TIMEOUT, PAUSE = 1.0, 2.0
SETTINGS: dict[str, Any] = {"peer_timeout": TIMEOUT, "peer_pause": PAUSE}
# What a busy machine may add, in seconds.
NOISE = 2.0
# What needs no peer, or is refused at once, takes less than this, in seconds.
AT_ONCE = 0.7
LARGE = 512 << 10


async def taking(work: Awaitable[Any]) -> tuple[Any, float]:
    """Return what something answered or failed with, and how long it took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        answer: Any = await work
    except UnavailableError as error:
        answer = error
    return answer, loop.time() - began


async def store(peer: NodeProcess, *blocks: object) -> None:
    async with NodeClient(peer.endpoint) as client:
        fingerprint = await client.register_namespace(namespace())
        await client.store("cpu0", fingerprint, [run(*blocks)], payloads(*blocks))


async def pull(node: Serving, peer: NodeProcess, *runs: BlockRun, **more: Any) -> Copied:
    return await copy_blocks(node, *runs, peer=(peer.endpoint, "cpu0"), to="cpu0", **more)


@pytest.mark.slow
@pytest.mark.parametrize("connected", [True, False])
async def test_a_peer_that_hangs_is_given_up_and_then_left_alone(
    start_node: StartNode, serve: Serve, connected: bool
) -> None:
    """What is here is served at once; the hung pull ends in time; later ones are refused at once.

    The kernel accepts connections for a stopped process: whether one stood before is no difference.
    """
    peer = await start_node()
    await store(peer, "there", "more")
    node = await serve(cpu_tier(32), peers=[peer.endpoint], **SETTINGS)
    await node.store("here")
    if connected:
        assert (await pull(node, peer, run("there"))).results == ["COPIED"]

    peer.process.send_signal(signal.SIGSTOP)
    hung = asyncio.create_task(taking(pull(node, peer, run("more"))))
    local, at_once = await taking(node.load("here"))
    present, present_at_once = await taking(pull(node, peer, run("here")))
    failure, waited = await hung
    refused, refused_at_once = await taking(pull(node, peer, run("more")))
    peer.process.send_signal(signal.SIGCONT)
    await asyncio.sleep(PAUSE)
    again = await pull(node, peer, run("there", "more"))

    assert (local, present.results) == (payloads("here"), ["PRESENT"])
    assert isinstance(failure, UnavailableError)
    assert isinstance(refused, UnavailableError)
    assert peer.endpoint in failure.message
    assert TIMEOUT <= waited < TIMEOUT + NOISE
    assert max(at_once, present_at_once, refused_at_once) < AT_ONCE
    assert 0 < (refused.retry_after or 0) <= PAUSE
    assert again.results == ["PRESENT" if connected else "COPIED", "COPIED"]
    nothing_is_held(node)


@pytest.mark.slow
async def test_what_came_from_a_peer_that_was_killed_is_kept(
    start_node: StartNode, serve: Serve, follow: Follow
) -> None:
    """Blocks that came whole are copied and load, the rest failed, and the events tell the same."""
    count, large = 128, namespace("large", block_bytes=[LARGE])
    tier = {**cpu_tier(0), "capacity": count * LARGE, "slot_bytes": LARGE}
    peer = await start_node(tiers=[tier])
    chain = run(*range(count))
    async with NodeClient(peer.endpoint) as client:
        fingerprint = await client.register_namespace(large)
        bodies = [payload(block, LARGE) for block in range(count)]
        await client.store("cpu0", fingerprint, [chain], bodies)
    served = await serve(tier, peers=[peer.endpoint], **SETTINGS)
    await served.client.register_namespace(large)
    node = Serving(served.server, served.client, served.clock, fingerprint)
    follower = await follow(node)

    copied = Copied()
    call = asyncio.create_task(pull(node, peer, chain, into=copied))
    while not copied.answers:  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0)
    await peer.kill()
    await call

    came = [block for block in range(count) if copied.told[block] == "COPIED"]
    assert set(copied.results) == {"COPIED", "FAILED"}
    assert copied.bytes == len(came) * LARGE
    assert await node.held() == hash_set(came)
    assert await node.load(*came) == [bodies[block] for block in came]
    await follower.settle()
    assert follower.fold.view == await listed(node.client)
    nothing_is_held(node)
    (refused, at_once) = await taking(pull(node, peer, run("new")))
    assert isinstance(refused, UnavailableError)
    assert at_once < AT_ONCE


@pytest.mark.slow
async def test_a_peer_that_started_again_is_pulled_from_again(
    start_node: StartNode, serve: Serve
) -> None:
    """Once the pause is over its blocks come; of those that it lost it says so."""
    peer = await start_node()
    await store(peer, "before")
    node = await serve(cpu_tier(32), peers=[peer.endpoint], **SETTINGS)
    assert (await pull(node, peer, run("before"))).results == ["COPIED"]
    await node.client.delete(node.namespace, [blocks_of("before")])

    await peer.kill()
    with pytest.raises(UnavailableError):
        await pull(node, peer, run("before"))
    peer = await start_node(peer)
    unknown = await _after_the_pause(node, peer, run("before"))
    await store(peer, "after")
    copied = await pull(node, peer, run("before"), run("after"))

    assert unknown.results == ["MISS"]
    assert copied.results == ["MISS", "COPIED"]


async def _after_the_pause(node: Serving, peer: NodeProcess, wanted: BlockRun) -> Copied:
    await asyncio.sleep(PAUSE)
    return await pull(node, peer, wanted)


@pytest.mark.slow
async def test_a_killed_puller_holds_nothing_at_its_peer(
    start_node: StartNode, serve: Serve
) -> None:
    """The blocks that were being read are not pinned once the reader is gone."""
    count, large = 64, namespace("large", block_bytes=[LARGE])
    tier = {**cpu_tier(0), "capacity": count * LARGE, "slot_bytes": LARGE}
    peer = await serve(tier)
    fingerprint = await peer.client.register_namespace(large)
    there = Serving(peer.server, peer.client, peer.clock, fingerprint)
    chain = run(*range(count))
    await peer.client.store(
        "cpu0", fingerprint, [chain], [payload(block, LARGE) for block in range(count)]
    )
    puller = await start_node(tiers=[tier], peers=[peer.endpoint])
    async with NodeClient(puller.endpoint) as client:
        await client.register_namespace(large)
        here = Serving(peer.server, client, peer.clock, fingerprint)
        call = asyncio.create_task(
            copy_blocks(here, chain, peer=(peer.endpoint, "cpu0"), to="cpu0")
        )
        while not peer.node.transfers:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
        await puller.kill()
        with pytest.raises(UnavailableError):
            await call

    await there.comes_to({"ready": count})
    nothing_is_held(peer)
