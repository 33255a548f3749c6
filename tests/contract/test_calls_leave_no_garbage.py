"""What a call brought is gone with the call: nothing of it waits for the garbage collector."""

import gc
from collections.abc import Iterator

import pytest
from google.protobuf.message import Message

from kvtier.client import InvalidArgumentError, NotFoundError

from .conftest import Serve
from .folding import listed
from .support import BLOCK_BYTES, Serving, blocks_of, cpu_tier, payloads, run

# Enough blocks that a request is told from everything else by its size.
BLOCKS = 2000
LARGE = 32 * BLOCKS


@pytest.fixture
def garbage() -> Iterator[list[object]]:
    """What only the collector can free: collected when it is asked for by `large`."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def large(garbage: list[object]) -> list[str]:
    """The kinds of objects in circles that hold something as large as a request."""
    gc.collect()
    return [
        f"{type(each).__name__} {getattr(each, 'f_code', '')}"
        for each in garbage
        for held in gc.get_referents(each)
        if size(held) >= LARGE
    ]


def size(held: object) -> int:
    """How much of a request something holds."""
    if isinstance(held, Message):
        return held.ByteSize()
    return len(held) if isinstance(held, bytes) else 0


async def call_everything(node: Serving) -> None:
    """Make calls with large requests, of every form that a call can have."""
    chain = [("large", place) for place in range(BLOCKS)]
    await node.store(*chain)
    assert await node.look_up(*chain) == ["HIT"] * BLOCKS
    await node.load(*chain)
    other = [("other", place) for place in range(BLOCKS)]
    prepared = await node.client.prepare_store("cpu0", node.namespace, [run(*other)])
    await node.client.write_blocks(
        prepared.lease, dict(enumerate(payloads(*other))), [BLOCK_BYTES] * BLOCKS
    )
    await node.client.complete_store(prepared.lease)
    with pytest.raises(InvalidArgumentError):
        await node.client.lookup(b"n" * LARGE, [blocks_of(*chain)])
    await node.client.delete(node.namespace, [blocks_of(*chain), blocks_of(*other)])
    assert not await listed(node.client)


async def test_requests_are_freed_with_their_calls(serve: Serve, garbage: list[object]) -> None:
    """Full collections are rare on a busy node, so that circles would pile up between them."""
    node = await serve(cpu_tier(2 * BLOCKS))
    await call_everything(node)
    large(garbage)
    garbage.clear()

    for _ in range(3):
        await call_everything(node)

    assert large(garbage) == []


async def test_a_refused_call_leaves_nothing(serve: Serve, garbage: list[object]) -> None:
    """A client that goes on asking for what it does not get costs a node no memory."""
    node = await serve(cpu_tier(4))
    gc.collect()
    garbage.clear()

    for _ in range(20):
        with pytest.raises(NotFoundError):
            await node.client.lookup(bytes(32), [blocks_of("A")])

    gc.collect()
    kinds = {type(each).__name__ for each in garbage}
    assert kinds.isdisjoint({"RPCState", "_ServicerContext", "_MessageReceiver", "AbortError"})
