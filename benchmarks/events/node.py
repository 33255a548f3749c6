"""A node that makes events: the whole server of `kvtier serve`, in a process of its own."""

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from itertools import count, cycle, islice
from multiprocessing.connection import Connection

from benchmarks.events import loops
from benchmarks.events.probes import CHAIN, WIDTH, chains, probe
from kvtier.server.collector import spare_long_lived
from kvtier.server.config import NodeConfig
from kvtier.server.lifecycle import TierServer
from kvtier.server.logs import configure_logs
from kvtier.server.tiers.offer import Run
from kvtier.server.tiers.table import Groups
from kvtier.v1.namespace_pb2 import Namespace

# Chains that are announced over and over; half of them have a scope of their own.
_ANNOUNCED = 1024
_AT_ONCE = 64
_SPARE_BLOCKS = 1 << 20
_NAMESPACE = Namespace(
    name="bench",
    model="meta-llama/Llama-3.1-8B",
    revision="main",
    dtype="bfloat16",
    layout="NHD",
    tokens_per_block=16,
    block_bytes=[1],
    tp_size=1,
    pp_size=1,
    hash_algorithm="sha256",
    hash_width=WIDTH,
)


class Source:
    """Makes the events of a node's tier.

    Args:
        server: The server, serving.
    """

    def __init__(self, server: TierServer) -> None:
        self._server = server
        (self._tier,) = server.node.tiers
        self._namespace = server.node.register(_NAMESPACE)
        self._numbers = count()
        self._alike: list[list[int]] = []
        self._apart: list[list[int]] = []

    async def address(self) -> str:
        """Return where the node listens."""
        return self._server.address

    async def fill(self, blocks: int) -> None:
        """Store so many blocks at least."""
        for first in range(0, blocks // CHAIN, _AT_ONCE):
            self._store(chains(min(_AT_ONCE, blocks // CHAIN - first)))

    async def prepare(self) -> None:
        """Store the chains that `publish` announces."""
        for number in range(_ANNOUNCED // 2):
            self._alike.append(self._store(chains(1)))
            self._apart.append(self._store(chains(1), scope=number.to_bytes(2, "big")))

    async def publish(self, batches: int, size: int, apart: bool) -> int:
        """Announce chains that were stored, as storing them does, in batches of so many.

        Args:
            batches: The number of batches.
            size: Chains of 16 blocks in each.
            apart: Whether each chain has a scope of its own, and so an event of its own.

        Returns:
            When it began, in nanoseconds.
        """
        groups = cycle(self._batches(size, apart=apart))
        announcer, table = self._tier.announcer, self._tier.table
        begun = time.monotonic_ns()
        for _ in range(batches):
            announcer.stored(table, next(groups))
            await asyncio.sleep(0)  # the loop turns between two calls, whatever they do
        return begun

    async def pace(self, probes: int, interval: float, load: int) -> None:
        """Store a probe at each interval, in seconds, after announcing so many batches of 32."""
        groups = cycle(self._batches(32, apart=False)) if load else iter(())
        loop = asyncio.get_running_loop()
        tick = loop.time()
        for _ in range(probes):
            for batch in islice(groups, load):
                self._tier.announcer.stored(self._tier.table, batch)
            self._store([probe()])
            tick = max(tick + interval, loop.time())
            await asyncio.sleep(tick - loop.time())

    async def head(self) -> tuple[int, int]:
        """Return the newest sequence and the number of readable blocks."""
        return self._server.node.log.head, self._tier.occupancy.ready

    async def cpu(self) -> float:
        """Return the seconds of CPU that the process has used."""
        return time.process_time()

    def _batches(self, size: int, *, apart: bool) -> list[Groups]:
        source = cycle(self._apart if apart else self._alike)
        kinds = min(_ANNOUNCED, 4096 // size)
        return [self._groups(islice(source, size), apart=apart) for _ in range(kinds)]

    def _groups(self, some: Iterator[list[int]], *, apart: bool) -> Groups:
        if apart:
            return [group for slots in some for group in self._tier.table.by_origin(slots)]
        return self._tier.table.by_origin([slot for slots in some for slot in slots])

    def _store(self, some: Sequence[tuple[bytes, ...]], scope: bytes = b"") -> list[int]:
        spaces = self._server.node.spaces
        runs = [Run(spaces.use(self._namespace, 0, scope), hashes) for hashes in some]
        reserved = self._tier.reserve(str(next(self._numbers)), runs)
        for run in runs:
            spaces.release(run.space)
        self._tier.mark_written(reserved.slots, [0] * len(reserved.slots))
        self._tier.publish(reserved.slots)
        return list(reserved.slots)


def main(pipe: Connection, blocks: int, log: dict[str, int]) -> None:
    """Run a node with so many blocks, and settings of its event log."""
    configure_logs("warning")
    loops.run(_serve, pipe, blocks, log)


async def _serve(pipe: Connection, blocks: int, log: dict[str, int]) -> None:
    tier = {"name": "cpu0", "medium": "cpu", "capacity": blocks + _SPARE_BLOCKS, "slot_bytes": 1}
    server = TierServer(
        NodeConfig.model_validate(
            {
                "node_id": f"bench-{os.getpid()}",
                "listen": "127.0.0.1:0",
                "drain_timeout": 0,
                "tiers": [tier],
                "events": log,
            }
        )
    )
    try:
        await server.start()
        spare_long_lived()
        source = Source(server)
        await source.fill(blocks)
        await source.prepare()
        await loops.obey(pipe, source)
    finally:
        server.hurry()
        await server.drain_and_stop()
