"""A follower of a node, in a process of its own: the client's `Watch`, and every hash as bytes."""

import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from typing import NamedTuple

from benchmarks.events import loops
from benchmarks.events.probes import WIDTH, stamp_of
from kvtier.client import BlockIndex, NodeClient, Watch
from kvtier.v1.event_service_pb2 import BlockStored, WatchEventsResponse
from kvtier.wire.hashes import split_hashes


class Account(NamedTuple):
    """What became of a stretch of a node's log, at one follower.

    Attributes:
        batches: Batches that arrived.
        told: Batches that a reset said to be missing.
        resets: How often.
        whole: After each of them as many blocks came as the node said that it has.
    """

    batches: int
    told: int
    resets: int
    whole: bool


class Follower:
    """Follows a node as far as it is told to.

    Args:
        client: The node's client.
    """

    def __init__(self, client: NodeClient) -> None:
        self._client = client
        self._watch = Watch(client)

    async def ready(self) -> None:
        """Take the node's snapshot."""
        async for message in self._watch:
            if message.WhichOneof("kind") == "synced":
                return

    async def count(self, hashes: int) -> tuple[int, int]:
        """Read so many hashes; return how many came and when the last did, in nanoseconds.

        Raises:
            RuntimeError: When the follower fell out of the log.
        """
        seen = 0
        async for message in self._watch:
            if message.HasField("reset"):
                raise RuntimeError("the log did not hold the round; raise its limits")
            seen += sum(map(len, _stored(message)))
            if seen >= hashes:
                break
        return seen, time.monotonic_ns()

    async def latencies(self, probes: int) -> list[tuple[int, int]]:
        """Read so many probes; return when each was made and when it came, in nanoseconds."""
        seen: list[tuple[int, int]] = []
        async for message in self._watch:
            for hashes in _stored(message):
                stamp = stamp_of(hashes)
                if stamp is not None:
                    seen.append((stamp, time.monotonic_ns()))
            if len(seen) >= probes:
                break
        return seen

    async def account(self, through: int, until: int) -> Account:
        """Read from one sequence until another, whatever it takes."""
        batches = told = resets = held = 0
        whole = synced = True
        async for message in self._watch:
            kind = message.WhichOneof("kind")
            if kind == "reset":
                told, resets, held, synced = (
                    told + message.through - through, resets + 1, 0, False,
                )  # fmt: skip
            elif kind == "snapshot":
                held += sum(map(len, map(_hashes, message.snapshot.stored)))
            elif kind == "batches":
                batches += len(message.batches.batches)
            elif kind == "synced":
                whole, synced = whole and message.synced.blocks == held, True
            through = max(through, message.through)
            if synced and through >= until:
                break
        return Account(batches, told, resets, whole)

    async def sync(self, index: bool) -> tuple[int, int]:
        """Follow the node anew to the end of its snapshot; return when that began and ended.

        Args:
            index: Whether a `BlockIndex` takes in what comes; else every hash is made bytes.
        """
        view = BlockIndex()
        begun = time.monotonic_ns()
        async with Watch(self._client) as watch:
            async for message in watch:
                if index:
                    view.apply(message)
                else:
                    for stored in message.snapshot.stored:
                        _hashes(stored)
                if message.WhichOneof("kind") == "synced":
                    break
            return begun, time.monotonic_ns()

    async def cpu(self) -> float:
        """Return the seconds of CPU that the process has used."""
        return time.process_time()


def _stored(message: WatchEventsResponse) -> Iterator[Sequence[bytes]]:
    for batch in message.batches.batches:
        for stored in batch.stored:
            yield split_hashes(stored.block_hashes, WIDTH)


def _hashes(stored: BlockStored) -> Sequence[bytes]:
    return split_hashes(stored.block_hashes, WIDTH)


def main(pipe: Connection, address: str) -> None:
    """Follow the node at an address."""
    loops.run(_follow, pipe, address)


async def _follow(pipe: Connection, address: str) -> None:
    async with NodeClient(address) as client:
        await loops.obey(pipe, Follower(client))
