"""A peer that answers ReadBlocks as a test says, over real gRPC."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
from xxhash import xxh3_64_intdigest

from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.transfer_service_pb2 import ReadBlocksRequest, ReadBlocksResponse
from kvtier.wire.hashes import split_hashes

from .support import WIDTH

Send = Callable[[ReadBlocksResponse | bytes], Awaitable[None]]
Act = Callable[[list[bytes], Send], Awaitable[None]]


class FakePeer:
    """Counts and answers the calls that it gets.

    Attributes:
        endpoint: Its address.
        asked: The hashes that each call so far asked for.
        under_way: Calls that have not ended.
        act: What it does with a call: it is given the hashes and a function that sends.
    """

    def __init__(self, act: Act) -> None:
        self.endpoint = ""
        self.asked: list[list[bytes]] = []
        self.under_way = 0
        self.act = act

    async def read_blocks(self, request: ReadBlocksRequest, context: Any) -> None:
        hashes = hashes_of(request.blocks.blocks)
        self.asked.append(hashes)
        self.under_way += 1

        async def send(message: ReadBlocksResponse | bytes) -> None:
            await context.write(
                message if isinstance(message, bytes) else message.SerializeToString()
            )

        try:
            await self.act(hashes, send)
        finally:
            self.under_way -= 1


@asynccontextmanager
async def faking(act: Act) -> AsyncIterator[FakePeer]:
    """Serve a fake peer."""
    peer, server = FakePeer(act), grpc.aio.server()
    handler: Any = grpc.unary_stream_rpc_method_handler(
        peer.read_blocks, ReadBlocksRequest.FromString, None
    )
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "kvtier.v1.TransferService", {"ReadBlocks": handler}
            ),
        )
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    peer.endpoint = f"127.0.0.1:{port}"
    try:
        yield peer
    finally:
        await server.stop(None)


def hashes_of(sets: Sequence[BlockSet]) -> list[bytes]:
    return [each for blocks in sets for each in split_hashes(blocks.block_hashes, WIDTH)]


def message(place: int, *blocks: bytes, **fields: Any) -> ReadBlocksResponse:
    """A message of whole blocks, from a place on."""
    return ReadBlocksResponse(
        block_index=place,
        checksums=map(xxh3_64_intdigest, blocks),
        data=b"".join(blocks),
        **fields,
    )


async def stand_still(_hashes: list[bytes], _send: Send) -> None:
    """Never answer."""
    await asyncio.Event().wait()
