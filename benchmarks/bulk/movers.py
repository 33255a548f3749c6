"""What moves many batches on one host: ours in memory and by stream, Redis, and a plain copy."""

import ctypes
import json
from collections.abc import Callable, Sequence
from itertools import count
from typing import Protocol

import uvloop

from benchmarks.bulk import redis_tcp
from benchmarks.bulk.node import NAMESPACE, hashes_of, start
from kvtier.client import NodeClient
from kvtier.client.mapped.buffers import address_of
from kvtier.v1.block_pb2 import BlockRun, BlockSet

Batches = Sequence[Sequence[memoryview]]


class Mover(Protocol):
    """Moves all of a pool's batches, as many at a time as it can."""

    @property
    def servers(self) -> Sequence[int]:
        """The process ids of its server processes."""

    def put(self, batches: Batches) -> None:
        """Store batches."""

    def get(self, into: Batches) -> None:
        """Bring the last batches into this process's memory, into these buffers if it can."""

    def close(self) -> None:
        """End the servers."""


class Memcpy:
    """One thread that copies to and from memory of its own: the limit.

    Args:
        size: Bytes of all batches.
    """

    servers: Sequence[int] = ()

    def __init__(self, size: int) -> None:
        # Written once, so that every page is there.
        self._memory = bytearray(b"\1") * size
        self._begin = address_of(memoryview(self._memory))

    def put(self, batches: Batches) -> None:
        """See `Mover`."""
        self._move(batches, ctypes.memmove)

    def get(self, into: Batches) -> None:
        """See `Mover`."""
        self._move(into, lambda mine, theirs, size: ctypes.memmove(theirs, mine, size))

    def close(self) -> None:
        """See `Mover`."""

    def _move(self, batches: Batches, copy: Callable[[int, int, int], object]) -> None:
        at = self._begin
        for batch in batches:
            for block in batch:
                copy(at, address_of(block), len(block))
                at += len(block)


class Redis:
    """Redis over TCP: a pipeline of SET or one MGET for each batch, one after the other."""

    def __init__(self, _: int) -> None:
        self._redis = redis_tcp.open()
        self.servers = self._redis.servers

    def put(self, batches: Batches) -> None:
        """See `Mover`."""
        for batch in batches:
            self._redis.put(batch)

    def get(self, into: Batches) -> None:
        """See `Mover`: into new bytes."""
        for _ in into:
            self._redis.get()

    def close(self) -> None:
        """See `Mover`."""
        self._redis.close()


class Ours:
    """`NodeClient.blocks`.

    Args:
        size: Bytes of all batches.
        shared_memory: Whether the tier is mapped.
        in_place: Whether blocks are read where they are; else they are copied.
    """

    def __init__(self, size: int, *, shared_memory: bool, in_place: bool = False) -> None:
        self._node = start(2 * size)
        self.servers = [self._node.pid]
        self._loop = uvloop.new_event_loop()
        self._client = NodeClient(json.loads(self._node.first_line)["listen"], timeout=60)
        self._blocks = self._client.blocks("cpu0", shared_memory=shared_memory)
        self._in_place = in_place
        self._numbers = count()
        self._hashes: list[bytes] = []
        self._namespace = self._loop.run_until_complete(self._client.register_namespace(NAMESPACE))

    def put(self, batches: Batches) -> None:
        """See `Mover`: each batch has new hashes, so that it is a store."""
        self._hashes = [hashes_of(next(self._numbers), len(batch)) for batch in batches]
        runs = [[BlockRun(block_hashes=packed)] for packed in self._hashes]
        reports = self._loop.run_until_complete(
            self._blocks.store_many(self._namespace, list(zip(runs, batches, strict=True)))
        )
        for report in reports:
            assert not isinstance(report, Exception), report
            assert set(report.results) == {2}

    def get(self, into: Batches) -> None:
        """See `Mover`."""
        asked = [[BlockSet(block_hashes=packed)] for packed in self._hashes]
        if self._in_place:
            self._loop.run_until_complete(self._read(asked))
            return
        found = self._loop.run_until_complete(self._blocks.load_many(self._namespace, asked, into))
        for views in found:
            assert not isinstance(views, Exception), views
            assert None not in views.payloads

    def close(self) -> None:
        """See `Mover`."""
        self._loop.run_until_complete(self._blocks.close())
        self._loop.run_until_complete(self._client.close())
        self._loop.close()
        self._node.close()

    async def _read(self, asked: Sequence[Sequence[BlockSet]]) -> None:
        for sets in asked:
            async with self._blocks.read(self._namespace, sets) as views:
                assert None not in views.payloads


MOVERS: dict[str, Callable[[int], Mover]] = {
    "memcpy": Memcpy,
    "Redis": Redis,
    "kvtier, stream": lambda size: Ours(size, shared_memory=False),
    "kvtier, memory": lambda size: Ours(size, shared_memory=True),
    "kvtier, read in place": lambda size: Ours(size, shared_memory=True, in_place=True),
}
