"""Clients that ask for many blocks at once, again and again.

Run as a program, with an endpoint, a namespace's fingerprint in hexadecimal, how many clients there
are and how many blocks each asks for, it asks until its standard input ends. Then it prints the
seconds that each answer took.
"""

import asyncio
import json
import os
import sys
import time
from contextlib import AsyncExitStack
from typing import Any

import grpc.aio

from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.lookup_pb2 import LookupBlocksRequest
from tests.contract.support import WIDTH

_LOOKUP = "/kvtier.v1.TierService/LookupBlocks"
_OPTIONS = [("grpc.use_local_subchannel_pool", 1)]


async def _ask(call: Any, request: bytes, stop: asyncio.Event, took: list[float]) -> None:
    while not stop.is_set():
        start = time.perf_counter()
        await call(request)
        took.append(time.perf_counter() - start)


async def _main(endpoint: str, fingerprint: str, clients: int, blocks: int) -> None:
    chain = BlockSet(block_hashes=os.urandom(WIDTH * blocks))
    asked = LookupBlocksRequest(
        namespace=bytes.fromhex(fingerprint), chains=[chain], include_blocks=True
    )
    stop, took = asyncio.Event(), list[float]()
    async with AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(endpoint, options=_OPTIONS))
            for _ in range(clients)
        ]
        asking = [
            asyncio.create_task(
                _ask(channel.unary_unary(_LOOKUP), asked.SerializeToString(), stop, took)
            )
            for channel in channels
        ]
        await asyncio.to_thread(sys.stdin.read)
        stop.set()
        await asyncio.gather(*asking)
    sys.stdout.write(json.dumps(took))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])))
