"""Blocks are read straight into buffers that the caller has."""

from collections.abc import Sequence
from typing import Any

import pytest

from kvtier.client import InvalidArgumentError, NodeClient
from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.result_pb2 import ReadResult

from .conftest import Serve
from .support import Serving, block_hash, blocks_of, namespace, payload, run, words

_LARGE = 5_000_001


async def by_offer(
    client: NodeClient, fingerprint: bytes, blocks: Sequence[BlockSet], buffers: Sequence[Any]
) -> list[str]:
    return words(ReadResult, await client.load_into("cpu0", fingerprint, blocks, buffers))


async def by_lease(
    client: NodeClient, fingerprint: bytes, blocks: Sequence[BlockSet], buffers: Sequence[Any]
) -> list[str]:
    prepared = await client.prepare_load("cpu0", fingerprint, blocks)
    results = words(ReadResult, await client.read_blocks_into(prepared.lease, buffers))
    await client.complete_load(prepared.lease)
    return results


@pytest.fixture(params=[by_offer, by_lease])
def load_into(request: pytest.FixtureRequest) -> Any:
    """Each way to read: with pins of the call's own, and by a lease."""
    return request.param


async def large_node(serve: Serve) -> tuple[Serving, bytes]:
    """A node with blocks over several messages, a, b and c."""
    node = await serve(
        {"name": "cpu0", "medium": "cpu", "capacity": 4 * _LARGE, "slot_bytes": _LARGE}
    )
    large = await node.client.register_namespace(namespace("large", block_bytes=[_LARGE]))
    blocks = ("a", "b", "c")
    await node.client.store("cpu0", large, [run(*blocks)], [payload(b, _LARGE) for b in blocks])
    return node, large


async def test_large_blocks_lie_in_the_buffers(serve: Serve, load_into: Any) -> None:
    """Each at its place, byte for byte; the buffer of a block that is not there is left alone."""
    node, large = await large_node(serve)
    buffers = [bytearray(b"?") * _LARGE for _ in range(4)]

    results = await load_into(node.client, large, [blocks_of("a", "x", "c", "a")], buffers)

    assert results == ["UNSPECIFIED", "MISS", "UNSPECIFIED", "UNSPECIFIED"]
    assert buffers[0] == buffers[3] == payload("a", _LARGE)
    assert buffers[1] == bytearray(b"?") * _LARGE
    assert buffers[2] == payload("c", _LARGE)


def flip_a_byte(node: Serving, block: str) -> None:
    """Change one byte of a block in the node's memory."""
    (tier,) = node.node.tiers
    (slot,) = [s for s, key in enumerate(tier.table.key) if key[8:] == block_hash(block)]
    position = tier.position_of(slot) + _LARGE // 2
    tier.arena.write(position, bytes([tier.arena.read(position, 1)[0] ^ 1]))


async def test_a_block_that_rotted_is_told_among_others(serve: Serve, load_into: Any) -> None:
    """The blocks before and after it are read."""
    node, large = await large_node(serve)
    flip_a_byte(node, "b")
    buffers = [bytearray(_LARGE) for _ in range(3)]

    results = await load_into(node.client, large, [blocks_of("a", "b", "c")], buffers)

    assert results == ["UNSPECIFIED", "CORRUPT", "UNSPECIFIED"]
    assert buffers[0] == payload("a", _LARGE)
    assert buffers[2] == payload("c", _LARGE)
    assert (await node.tier()).ready_blocks == 2


@pytest.mark.parametrize(
    ("buffers", "told"),
    [
        ([bytearray(64)], r"buffers have \[64\] bytes; the blocks have \[64, 64\]"),
        ([bytearray(64), bytearray(63)], "buffers have"),
        ([bytearray(64), bytes(64)], r"buffers\[1\] cannot be written"),
        ([bytearray(64), None], r"buffers\[1\] must be a contiguous buffer of bytes"),
    ],
)
async def test_buffers_have_to_fit(serve: Serve, buffers: list[Any], told: str) -> None:
    """A wrong number, size or kind is told before anything is read."""
    node = await serve()

    with pytest.raises(InvalidArgumentError, match=told):
        await node.client.load_into("cpu0", node.namespace, [blocks_of("a", "b")], buffers)
