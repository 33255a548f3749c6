"""An object store that takes requests and never answers holds up nobody but its own tier."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from kvtier.client import NodeClient
from kvtier.v1.event_service_pb2 import TierState
from kvtier.v1.result_pb2 import WriteResult
from kvtier.v1.tier_pb2 import Tier
from tests.contract.filed import FILES, files_tier
from tests.contract.support import blocks_of, namespace, payload, run, words
from tests.s3 import faults
from tests.s3.relay import Relay
from tests.s3.shelves import Place

from .conftest import StartNode
from .objects import OBJECTS, WITH_CREDENTIALS, objects_tier
from .processes import NodeProcess, ready

SIZE, STORES = 4096, 200
NAMESPACE = namespace("hung", block_bytes=[SIZE])
IO_TIMEOUT, DRAIN_TIMEOUT = 1.0, 1.0
# What a machine with much else to do takes longer for all that.
SLACK = 3.0
HANG = faults.always(faults.Fault(faults.Kind.HANG))


def content(block: object) -> bytes:
    return payload(block, SIZE)


@pytest.fixture(name="node")
async def _node(
    start_node: StartNode, tmp_path_factory: pytest.TempPathFactory, place: Place, relay: Relay
) -> NodeProcess:
    """A node whose memory writes through to files and to objects; all of them are well."""
    host = {"name": "cpu0", "medium": "cpu", "capacity": 2 * STORES * SIZE}
    tiers = [
        {**host, "write_through": [FILES, OBJECTS]},
        files_tier(tmp_path_factory.mktemp("fs") / "files"),
        objects_tier(place, relay, io_timeout=IO_TIMEOUT),
    ]
    node = await start_node(prefix=WITH_CREDENTIALS, tiers=tiers, drain_timeout=DRAIN_TIMEOUT)
    async with NodeClient(node.endpoint) as client:
        await ready(client)
    return node


async def tiers_of(client: NodeClient) -> dict[str, Tier]:
    return {tier.name: tier for tier in await client.list_tiers()}


async def eventually(condition: Callable[[], Awaitable[bool]], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - it is polled
            await asyncio.sleep(0.02)


async def store_all(client: NodeClient, fingerprint: bytes) -> float:
    """Store blocks one by one, and return how long the slowest took."""
    slowest = 0.0
    for block in range(STORES):
        began = time.monotonic()
        await client.store("cpu0", fingerprint, [run(block)], [content(block)])
        slowest = max(slowest, time.monotonic() - began)
    return slowest


@pytest.mark.slow
async def test_a_store_that_hangs_costs_the_others_nothing(node: NodeProcess, relay: Relay) -> None:
    """Stores and loads are as fast as ever, nothing stays pinned, and the node can end."""
    relay.plan = HANG
    async with NodeClient(node.endpoint) as client:
        fingerprint = await client.register_namespace(NAMESPACE)

        assert await store_all(client, fingerprint) < IO_TIMEOUT / 2

        async def all_are_in_files() -> bool:
            return (await tiers_of(client))[FILES].ready_blocks == STORES

        await eventually(all_are_in_files, 5)
        for block in range(STORES):
            async with asyncio.timeout(IO_TIMEOUT / 2):
                report = await client.load(FILES, fingerprint, [blocks_of(block)])
            assert report.payloads == (content(block),)

        async def nothing_is_held() -> bool:
            tiers = (await tiers_of(client)).values()
            return not any(t.leased_blocks + t.pinned_blocks + t.pending_blocks for t in tiers)

        await eventually(nothing_is_held, 2 * IO_TIMEOUT + SLACK)
        objects = (await tiers_of(client))[OBJECTS]
        assert objects.state == TierState.TIER_STATE_READ_ONLY
        assert objects.ready_blocks == 0
        assert objects.counters.copies_failed == STORES
        began = time.monotonic()
        assert await node.terminate() == 0
        assert time.monotonic() - began < DRAIN_TIMEOUT + SLACK


@pytest.mark.slow
async def test_what_needs_a_store_that_hangs_ends_in_time(node: NodeProcess, relay: Relay) -> None:
    """A store, a load and a delete end at the timeout; the tier is well when the store is."""
    async with NodeClient(node.endpoint) as client:
        fingerprint = await client.register_namespace(NAMESPACE)
        await client.store(OBJECTS, fingerprint, [run("a")], [content("a")])
        relay.plan = HANG
        async with asyncio.timeout(IO_TIMEOUT + SLACK):
            loaded, stored, deleted = await asyncio.gather(
                client.load(OBJECTS, fingerprint, [blocks_of("a")]),
                client.store(OBJECTS, fingerprint, [run("b")], [content("b")]),
                client.delete(fingerprint, [blocks_of("c")]),
            )
        assert loaded.payloads == (None,)
        assert words(WriteResult, stored.results) == ["FAILED"]
        assert len(deleted.tiers) == 3

        relay.plan = faults.none
        await ready(client)
        await client.store(OBJECTS, fingerprint, [run("b")], [content("b")])
        again = await client.load(OBJECTS, fingerprint, [blocks_of("a", "b")])

    assert again.payloads == (content("a"), content("b"))


@pytest.mark.slow
async def test_a_node_ends_while_a_store_hangs(node: NodeProcess, relay: Relay) -> None:
    """It waits no longer for copies than for other work."""
    async with NodeClient(node.endpoint) as client:
        fingerprint = await client.register_namespace(NAMESPACE)
        relay.plan = HANG
        for block in range(20):
            await client.store("cpu0", fingerprint, [run(block)], [content(block)])

        began = time.monotonic()
        assert await node.terminate() == 0

    assert time.monotonic() - began < DRAIN_TIMEOUT + SLACK
