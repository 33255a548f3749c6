"""A client process that takes what it is told to take, says so, and waits to be killed.

Run as a program, with a `Job` as JSON.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any

import grpc.aio

from kvtier.client import NodeClient
from kvtier.client.mapped.file import open_shared
from kvtier.v1.block_pb2 import BlockRun, BlockSet
from kvtier.v1.tier_service_pb2 import (
    PrepareStoreRequest,
)
from kvtier.v1.transfer_service_pb2 import WriteBlocksRequest
from kvtier.v1.transfer_service_pb2_grpc import TransferServiceStub

START_SECONDS = 30.0


@dataclass(frozen=True)
class Job:
    """What the process does; bytes are in hexadecimal.

    Attributes:
        what: "pin" loads under a lease; "reserve" takes a store lease and writes a part under it;
            "offer" makes an offer with its first part, in one call; "place" takes a store lease and
            writes a part into the mapped tier; "look" loads and keeps the tier mapped.
        endpoint: The node.
        tier: The tier.
        namespace: The fingerprint.
        hashes: The blocks, one after the other.
        part: How many bytes of the first block to send.
    """

    what: str
    endpoint: str
    tier: str
    namespace: str
    hashes: str
    part: int = 0


@asynccontextmanager
async def vanishing(job: Job) -> AsyncIterator[Process]:
    """Start a process and wait until it has what it is to take; kill it with SIGKILL at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, json.dumps(asdict(job)), stdout=PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            assert await process.stdout.readline() == b"taken\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def _take(job: Job) -> None:
    namespace, hashes = bytes.fromhex(job.namespace), bytes.fromhex(job.hashes)
    run = BlockRun(block_hashes=hashes)
    async with NodeClient(job.endpoint) as client:
        match job.what:
            case "pin":
                await client.prepare_load(job.tier, namespace, [BlockSet(block_hashes=hashes)])
                await _wait()
            case "look":
                asked = [BlockSet(block_hashes=hashes)]
                async with client.blocks(job.tier) as tier, tier.read(namespace, asked):
                    await _wait()
            case "place":
                told = await client.map_tier(job.tier)
                file = open_shared(told.shared_file, None)
                prepared = await client.prepare_store(
                    job.tier, namespace, [run], mapping=told.mapping
                )
                begin = prepared.slots[0] * told.slot_bytes
                file.view[begin : begin + job.part] = bytes(job.part)
                await _wait()
            case "reserve":
                prepared = await client.prepare_store(job.tier, namespace, [run])
                await _write(job, WriteBlocksRequest(lease=prepared.lease), answers=False)
            case "offer":
                offer = PrepareStoreRequest(
                    tier=job.tier,
                    namespace=namespace,
                    runs=[run],
                    lease_id=os.urandom(16),
                    owner=client.owner,
                )
                await _write(job, WriteBlocksRequest(offer=offer), answers=True)


async def _write(job: Job, first: WriteBlocksRequest, *, answers: bool) -> None:
    async with grpc.aio.insecure_channel(job.endpoint) as channel:
        stub: Any = TransferServiceStub(channel)
        call = stub.WriteBlocks()
        await call.write(first)
        await call.write(WriteBlocksRequest(data=bytes(job.part)))
        if answers:
            await call.read()
        await _wait()


async def _wait() -> None:
    print("taken", flush=True)  # noqa: T201 - the sign that the test waits for
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_take(Job(**json.loads(sys.argv[1]))))
