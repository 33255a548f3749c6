"""Objects: kvtier's shelf beside plain puts and gets of the same library, at one S3 server."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count

import boto3
import obstore
from obstore.store import S3Store

from benchmarks.lasting.ours import Ours
from benchmarks.lasting.turns import MIB, Contender, Options, compare
from kvtier.server.lasting.objects import ObjectShelf
from kvtier.server.stores.base import Bytes
from kvtier.v1.block_pb2 import Medium

_THREADS = 8
_HEADER = 200
_BUCKET, _REGION = "bench", "us-east-1"


async def measure(options: Options) -> None:
    """Compare for each size of block."""
    os.environ |= {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
    with _server() as endpoint:
        shelf = ObjectShelf(
            f"s3://{_BUCKET}/kvtier",
            node_id="bench",
            tier="obj0",
            endpoint=endpoint,
            region=_REGION,
            io_timeout=60.0,
            concurrency=_THREADS,
        )
        for size in options.block_sizes():
            contenders: dict[str, Contender] = {
                "kvtier": Ours(shelf, Medium.MEDIUM_OBJ, _THREADS, 1),
                "plain obstore": PlainObjects(endpoint),
            }
            title = f"objects of {size / MIB:g} MiB at moto, {_THREADS} at one time"
            await compare(title, contenders, options.blocks(size), options.turns)


class PlainObjects:
    """Objects that are put and got as they are.

    Args:
        endpoint: The server's URL.
    """

    def __init__(self, endpoint: str) -> None:
        self._bucket = S3Store(
            _BUCKET,
            prefix="plain",
            endpoint=endpoint,
            region=_REGION,
            client_options={"allow_http": True},
        )
        self._threads = ThreadPoolExecutor(_THREADS)
        self._numbers = count()
        self._names: list[str] = []

    async def store(self, blocks: Sequence[Bytes]) -> None:
        """Store a batch."""
        self._names = [str(next(self._numbers)) for _ in blocks]
        loop = asyncio.get_running_loop()
        pairs = zip(self._names, blocks, strict=True)
        await asyncio.gather(
            *(loop.run_in_executor(self._threads, self._put, *pair) for pair in pairs)
        )

    async def load(self, into: Sequence[Bytes]) -> None:
        """Load the last batch into memory that is there."""
        loop = asyncio.get_running_loop()
        pairs = zip(self._names, into, strict=True)
        await asyncio.gather(
            *(loop.run_in_executor(self._threads, self._get, *pair) for pair in pairs)
        )

    async def clear(self) -> None:
        """Remove the last batch."""
        await obstore.delete_async(self._bucket, self._names)

    def _put(self, name: str, block: Bytes) -> None:
        obstore.put(self._bucket, name, b"".join((bytes(_HEADER), block.data)), mode="create")

    def _get(self, name: str, block: Bytes) -> None:
        block.data[:] = memoryview(obstore.get(self._bucket, name).bytes())[_HEADER:]


@contextmanager
def _server() -> Iterator[str]:
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            told = (re.search(r"Running on (http://[0-9.:]+)", line) for line in server.stderr)
            endpoint = next(found for found in told if found)[1]
            drain = ThreadPoolExecutor(1)
            drain.submit(lambda: sum(1 for _ in server.stderr or ()))
            boto3.client("s3", endpoint_url=endpoint, region_name=_REGION).create_bucket(
                Bucket=_BUCKET
            )
            yield endpoint
        finally:
            server.kill()
