"""A node whose name comes to stand for another address is found there by itself."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kvtier.client import NodeClient, UnavailableError
from kvtier.v1.event_service_pb2 import ResetReason, SourceState
from tests.contract.support import block_hash, cpu_tier, hash_set, namespace, payloads, run
from tests.contract.viewing import View, watching

from .conftest import StartNode
from .names import naming
from .relay import Relay

HERE, THERE = "127.0.0.1", "127.0.0.2"
# A name is looked up and a connection tried each 2 s; the rest is for a busy machine.
FOUND_SECONDS = 10.0


def resets(view: View) -> list[str]:
    told = [m.reset.reason for m in view.messages if m.HasField("reset")]
    return [ResetReason.Name(reason).removeprefix("RESET_REASON_") for reason in told]


def state(view: View) -> str:
    told = [m.state.source for m in view.messages if m.state.source]
    return SourceState.Name(told[-1]).removeprefix("SOURCE_STATE_") if told else ""


def there(address: str) -> str:
    return f"{THERE}:{address.rpartition(':')[2]}"


async def store(client: NodeClient, *blocks: int) -> None:
    fingerprint = await client.register_namespace(namespace())
    for block in blocks:
        await client.store("cpu0", fingerprint, [run(block)], payloads(block))


@pytest.mark.slow
async def test_a_node_that_moved_is_resumed(start_node: StartNode) -> None:
    """The old address passes nothing and says nothing; at the new one not an event is missing."""
    node = await start_node()
    async with (
        Relay(node.endpoint) as old,
        Relay(node.endpoint, there(old.endpoint)),
        naming(HERE) as names,
        NodeClient(node.endpoint) as writer,
        NodeClient(names.target(old.endpoint)) as client,
        watching(client) as view,
    ):
        await store(writer, 1)
        await view.settle(writer)

        names.address = THERE
        old.stall()
        await store(writer, 2)
        async with asyncio.timeout(FOUND_SECONDS):
            await view.settle(writer)
        name = (await client.get_node()).node_id
        connections = old.connections

    assert resets(view) == ["NO_POSITION"]
    assert {key.block_hash for key in view.held(name)} == hash_set([1, 2])
    assert connections == 1


@pytest.mark.slow
async def test_a_node_that_starts_anew_elsewhere_is_followed_from_its_start(
    start_node: StartNode,
) -> None:
    """Also when its name was looked up in vain in between; nothing of its first life is left."""
    node = await start_node(tiers=[cpu_tier(64)])
    async with (
        naming(HERE) as names,
        NodeClient(names.target(node.endpoint)) as client,
        watching(client) as view,
    ):
        await store(client, 1)
        await view.settle(client)
        await node.kill()
        await view.until(lambda: state(view) == "DOWN")

        node.config["listen"] = there(node.endpoint)
        again = await start_node(node)
        names.address = THERE
        async with NodeClient(again.endpoint) as writer:
            await store(writer, 2)
            async with asyncio.timeout(FOUND_SECONDS):
                await view.settle(writer)
        async with asyncio.timeout(FOUND_SECONDS):
            await _once_reached(lambda: store(client, 3))
        await view.settle(client)
        name = (await client.get_node()).node_id

    assert resets(view) == ["NO_POSITION", "EPOCH_CHANGED"]
    assert {key.block_hash for key in view.held(name)} == hash_set([2, 3])
    assert block_hash(1) not in {key.block_hash for key in view.held(name)}


async def _once_reached(call: Callable[[], Awaitable[None]]) -> None:
    """Bulk has a connection of its own, which may find the new address later than events do."""
    while True:
        try:
            return await call()
        except UnavailableError:
            await asyncio.sleep(0.1)
