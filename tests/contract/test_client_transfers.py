"""Moving blocks larger than a message to and from a node."""

import asyncio
import random

from kvtier.client import BlockingNodeClient, block_sizes
from kvtier.v1.result_pb2 import ReadResult, StoreOutcome, WriteResult

from .conftest import Serve
from .support import blocks_of, namespace, run, words

_SIZES = [3_000_000, 70_001]
_TIER = {"name": "cpu0", "medium": "cpu", "capacity": "32MiB", "slot_bytes": 3_000_000}


def _bytes(number: int, size: int) -> bytes:
    return random.Random(number).randbytes(size)


async def test_large_blocks_come_back_byte_exact(serve: Serve) -> None:
    """Blocks over several messages, and several blocks in one message, in one store."""
    node = await serve(_TIER)
    large = await node.client.register_namespace(namespace("large", block_bytes=_SIZES))
    runs = [run(1, 2), run(3, 4, 5, group=1)]
    payloads = [_bytes(n, _SIZES[0] if n < 3 else _SIZES[1]) for n in range(1, 6)]

    stored = await node.client.store("cpu0", large, runs, payloads)
    again = await node.client.store("cpu0", large, runs, payloads)
    loaded = await node.client.load("cpu0", large, [blocks_of(1, 9, 2), blocks_of(5, group=1)])

    assert words(WriteResult, stored.results) == ["STORED"] * 5
    assert words(StoreOutcome, again.outcomes) == ["PRESENT"] * 5
    assert list(loaded.payloads) == [payloads[0], None, payloads[1], payloads[4]]
    assert words(ReadResult, loaded.results) == [
        "UNSPECIFIED",
        "MISS",
        "UNSPECIFIED",
        "UNSPECIFIED",
    ]


async def test_blocks_are_written_and_read_under_leases(serve: Serve) -> None:
    """Only the places that are wanted are written, in two calls; a load lease reads them."""
    node = await serve(_TIER)
    description = namespace("large", block_bytes=_SIZES)
    large = await node.client.register_namespace(description)
    payloads = {n: _bytes(n, _SIZES[0]) for n in range(1, 4)}
    await node.client.store("cpu0", large, [run(2, after=1)], [payloads[2]])
    runs = [run(1, 2, 3)]
    sizes = block_sizes(description, runs)

    prepared = await node.client.prepare_store("cpu0", large, runs)
    first = await node.client.write_blocks(prepared.lease, {2: payloads[3]}, sizes)
    second = await node.client.write_blocks(prepared.lease, {0: payloads[1]}, sizes)
    await node.client.complete_store(prepared.lease)
    blocks = [blocks_of(1, 2, 3, 4)]
    pinned = await node.client.prepare_load("cpu0", large, blocks)
    report = await node.client.read_blocks(pinned.lease, block_sizes(description, blocks))
    await node.client.complete_load(pinned.lease)

    assert words(StoreOutcome, prepared.outcomes) == ["WRITE", "PRESENT", "WRITE"]
    assert words(WriteResult, [first[2], second[0]]) == ["WRITTEN", "WRITTEN"]
    assert list(report.payloads) == [payloads[1], payloads[2], payloads[3], None]


async def test_a_block_twice_in_one_offer_is_stored_once(serve: Serve) -> None:
    """Both places are answered, and one block is there."""
    node = await serve()
    payload = _bytes(1, 64)

    report = await node.client.store("cpu0", node.namespace, [run(1), run(1)], [payload, payload])
    loaded = await node.client.load("cpu0", node.namespace, [blocks_of(1, 1)])

    assert words(WriteResult, report.results) == ["STORED", "STORED"]
    assert list(loaded.payloads) == [payload, payload]
    assert (await node.tier()).ready_blocks == 1


async def test_the_blocking_client_stores_and_loads(serve: Serve) -> None:
    """The same calls from a thread without a loop."""
    node = await serve()

    def work() -> tuple[list[bytes | None], int]:
        with BlockingNodeClient(node.endpoint) as client:
            space = client.register_namespace(namespace())
            client.store("cpu0", space, [run(1, 2)], [_bytes(1, 64), _bytes(2, 64)])
            report = client.load("cpu0", space, [blocks_of(1, 2)])
            return list(report.payloads), len(list(client.list_blocks(page_size=1)))

    payloads, listed = await asyncio.to_thread(work)

    assert payloads == [_bytes(1, 64), _bytes(2, 64)]
    assert listed == 2
