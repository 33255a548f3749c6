"""What a call brought is gone with the call: nothing of it waits for the garbage collector."""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from google.protobuf.message import Message

from kvtier.client import DataPath, InvalidArgumentError, NotFoundError, UnavailableError
from kvtier.v1.lookup_pb2 import LookupBlocksRequest
from kvtier.v1.transfer_service_pb2 import ReadBlocksResponse
from kvtier.wire.namespaces import fingerprint

from .conftest import Serve
from .copying import copy_blocks
from .fake_peer import Send, faking, message, stand_still
from .folding import listed
from .secured import SOON, grant, token_auth
from .support import (
    BLOCK_BYTES,
    Serving,
    blocks_of,
    cpu_tier,
    namespace,
    payload,
    payloads,
    run,
)

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
    async with node.client.blocks("cpu0") as blocks:
        report = await blocks.store(node.namespace, [run(*other)], payloads(*other))
        assert report.path is DataPath.SHARED_MEMORY
        await blocks.load(node.namespace, [blocks_of(*other)])
        with pytest.raises(InvalidArgumentError):
            await blocks.store(node.namespace, [run(*other, start=1)], payloads(*other))
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


async def test_a_caller_beyond_its_grant_leaves_nothing(
    serve: Serve, tmp_path: Path, garbage: list[object]
) -> None:
    """Neither when it may do what it asks for, nor when it may not."""
    grants = [grant("token:caller", "admin", "llama")]
    auth = token_auth(tmp_path, "caller", grants=grants)
    node = await serve(register=False, auth=auth)
    for name in ("llama", "mistral"):
        node.node.register(namespace(name))
    chain = [blocks_of(*(("large", place) for place in range(BLOCKS)))]
    requests = [
        LookupBlocksRequest(namespace=fingerprint(namespace(name)), chains=chain)
        for name in ("llama", "mistral")
    ]
    gc.collect()
    garbage.clear()

    codes = [await plain_call(node.endpoint, "caller", each) for each in requests * 5]

    assert codes == ["OK", "PERMISSION_DENIED"] * 5
    assert large(garbage) == []
    kinds = {type(each).__name__ for each in garbage}
    assert kinds.isdisjoint({"RPCState", "_ServicerContext", "AbortError", "Call"})


async def plain_call(endpoint: str, token: str, request: LookupBlocksRequest) -> str:
    """How a lookup ends, by a client that keeps no circles of its own."""
    async with grpc.aio.insecure_channel(endpoint) as channel:
        call: Any = channel.unary_unary("/kvtier.v1.TierService/LookupBlocks")
        sent = [("authorization", f"Bearer {token}")]
        try:
            await call(request.SerializeToString(), metadata=sent, timeout=SOON)
        except grpc.aio.AioRpcError as error:
            return error.code().name
        return "OK"


async def pull_and_fail(node: Serving, peer: Serving) -> None:
    """Pull blocks as large as a request, and be refused."""
    wanted = run("A", "B", "absent")
    copied = await copy_blocks(node, wanted, peer=(peer.endpoint, "cpu0"), to="cpu0")
    assert copied.results == ["COPIED", "COPIED", "MISS"]
    with pytest.raises(NotFoundError):
        await copy_blocks(node, run("C"), peer=(peer.endpoint, "tape0"), to="cpu0")
    await node.client.delete(node.namespace, [blocks_of("A", "B")])


async def test_a_pull_leaves_nothing(serve: Serve, garbage: list[object]) -> None:
    """Neither the messages of the peer nor the calls to it wait for the collector."""
    tier = {**cpu_tier(0), "capacity": 8 * LARGE, "slot_bytes": LARGE}
    described = namespace("large", block_bytes=[LARGE])
    peer = await serve(tier)
    node = await serve(tier, peers=[peer.endpoint])
    ends = []
    for each in (node, peer):
        fingerprint = await each.client.register_namespace(described)
        ends.append(Serving(each.server, each.client, each.clock, fingerprint))
    bodies = [payload(block, LARGE) for block in ("A", "B")]
    await peer.client.store("cpu0", fingerprint, [run("A", "B")], bodies)
    await pull_and_fail(*ends)
    large(garbage)
    garbage.clear()

    for _ in range(3):
        await pull_and_fail(*ends)

    assert large(garbage) == []


async def test_a_peer_that_fails_leaves_nothing(serve: Serve, garbage: list[object]) -> None:
    """Neither when it breaks off in the middle of a block, nor when it never says a word."""
    tier = {**cpu_tier(0), "capacity": 16 * LARGE, "slot_bytes": LARGE}
    chain = run(*(("large", place) for place in range(BLOCKS)))

    async def break_off(_hashes: list[bytes], send: Send) -> None:
        await send(message(0, payload("A", LARGE)))
        await send(ReadBlocksResponse(block_index=1, data=bytes(LARGE - 1)))

    async with faking(break_off) as fake, faking(stand_still) as silent:
        peers = [fake.endpoint, silent.endpoint]
        served = await serve(tier, peers=peers, peer_timeout=0.1, peer_pause=0)
        fingerprint = await served.client.register_namespace(
            namespace("large", block_bytes=[LARGE])
        )
        node = Serving(served.server, served.client, served.clock, fingerprint)
        for turn in range(3):
            copied = await copy_blocks(node, run("A", "B"), peer=(fake.endpoint, "cpu0"), to="cpu0")
            assert copied.results == ["COPIED", "FAILED"]
            await node.client.delete(node.namespace, [blocks_of("A")])
            with pytest.raises(UnavailableError):
                await copy_blocks(node, chain, peer=(silent.endpoint, "cpu0"), to="cpu0")
            if not turn:
                large(garbage)
                garbage.clear()

    assert large(garbage) == []
