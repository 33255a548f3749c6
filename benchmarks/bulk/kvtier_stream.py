"""Ours between hosts: the blocks of a batch by `NodeClient.store` and `load`, over gRPC."""

import json
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING

import uvloop

from benchmarks.bulk.child import Child
from benchmarks.bulk.node import NAMESPACE, hashes_of, start
from kvtier.client import NodeClient
from kvtier.v1.block_pb2 import BlockRun, BlockSet
from kvtier.v1.namespace_pb2 import Namespace

if TYPE_CHECKING:
    from typing_extensions import Buffer

NAME = "kvtier"


def missing() -> str:
    """Return nothing: it is ours."""
    return ""


def open() -> "KvtierStream":  # noqa: A001 - as the measurements call it
    """Start the server and connect."""
    return KvtierStream(start())


class KvtierStream:
    """A `Contender`.

    Each batch has new hashes, so that it is a store and not found to be there.

    Attributes:
        address: Where the node listens.
    """

    def __init__(self, child: Child) -> None:
        self._child = child
        self.servers = [child.pid]
        self._loop = uvloop.new_event_loop()
        self.address: str = json.loads(child.first_line)["listen"]
        self._client = NodeClient(self.address, timeout=60)
        self._numbers = count()
        self._hashes = b""
        self._namespaces: dict[int, bytes] = {}
        self._size = 0
        self._buffers: list[bytearray] = []

    def put(self, blocks: Sequence[memoryview]) -> None:
        """See `Contender`."""
        if [len(block) for block in blocks] != [len(buffer) for buffer in self._buffers]:
            self._buffers = [bytearray(len(block)) for block in blocks]
        self._size = len(blocks[0])
        self._hashes = hashes_of(next(self._numbers), len(blocks))
        self._loop.run_until_complete(self._put(blocks))

    def get(self) -> "Sequence[Buffer]":
        """See `Contender`."""
        return self._loop.run_until_complete(self._get())

    def close(self) -> None:
        """See `Contender`."""
        self._loop.run_until_complete(self._client.close())
        self._loop.close()
        self._child.close()

    async def _put(self, blocks: Sequence[memoryview]) -> None:
        if self._size not in self._namespaces:
            space = Namespace()
            space.CopyFrom(NAMESPACE)
            space.name = f"bench-{self._size}"
            space.block_bytes[:] = [self._size]
            self._namespaces[self._size] = await self._client.register_namespace(space)
        run = BlockRun(block_hashes=self._hashes)
        report = await self._client.store("cpu0", self._namespaces[self._size], [run], blocks)
        assert set(report.results) == {report.results[0]} != {0}

    async def _get(self) -> "Sequence[Buffer]":
        asked = [BlockSet(block_hashes=self._hashes)]
        space = self._namespaces[self._size]
        results = await self._client.load_into("cpu0", space, asked, self._buffers)
        assert not any(results)
        return self._buffers
