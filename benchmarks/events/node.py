"""A node that makes events: the whole server of `kvtier serve`, in a process of its own."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, count, cycle, islice
from multiprocessing.connection import Connection

from benchmarks.events import loops
from benchmarks.events.probes import CHAIN, WIDTH, chains, probe
from kvtier.server.config import NodeConfig
from kvtier.server.events.encode import encode_stored
from kvtier.server.events.parts import STORED, Part
from kvtier.server.lifecycle import TierServer
from kvtier.server.observing.logs import configure_logs
from kvtier.server.process.collector import spare_long_lived
from kvtier.server.tiers.offer import Run
from kvtier.server.tiers.spaces import PREFIX_BYTES
from kvtier.server.tiers.table import Groups
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.hashes import join_hashes

# Chains that are announced over and over, of each kind, and batches of them.
_ANNOUNCED = 256
_AT_ONCE = 64
# Events after which the loop turns at the latest: what the calls themselves cost is left out.
_BEFORE_A_TURN = 32
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
        origin = self._tier.announcer.new_origin(
            server.node.spaces.use(self._namespace, 0, b""), ""
        )
        self._header = origin.stored_header
        self._where = (0, self._tier.store.medium, self._namespace.fingerprint)
        self._append = server.node.log.append
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
        for number in range(_ANNOUNCED):
            self._alike.append(self._store(chains(1)))
            self._apart.append(self._store(chains(1), scope=number.to_bytes(2, "big")))

    async def publish(self, batches: int, size: int, how: str) -> int:
        """Announce chains over and over, in batches of so many.

        Args:
            batches: The number of batches.
            size: Chains of 16 blocks in each.
            how: "hashes" makes events of hashes; "table" makes them of blocks in the table, as a
                store does; "apart" does that for chains that have a scope, and so an event, each.

        Returns:
            When it began, in nanoseconds.
        """
        announcements = cycle(self._announcements(size, how))
        begun = time.monotonic_ns()
        for number in range(1, batches + 1):
            next(announcements)()
            if number % (_BEFORE_A_TURN // min(size, _BEFORE_A_TURN)) == 0:
                await asyncio.sleep(0)
        return begun

    async def pace(self, probes: int, interval: float, load: int) -> float:
        """Store a probe at each interval, in seconds, after announcing so many batches of 32.

        Returns:
            The seconds that it took.
        """
        announcements = cycle(self._announcements(32, "table"))
        loop = asyncio.get_running_loop()
        begun = tick = loop.time()
        for _ in range(probes):
            for announce in islice(announcements, load):
                announce()
            self._store([probe()])
            tick = max(tick + interval, loop.time())
            await asyncio.sleep(tick - loop.time())
        return loop.time() - begun

    async def head(self) -> tuple[int, int]:
        """Return the newest sequence and the number of readable blocks."""
        return self._server.node.log.head, self._tier.occupancy.ready

    async def cpu(self) -> float:
        """Return the seconds of CPU that the process has used."""
        return time.process_time()

    def _announcements(self, size: int, how: str) -> list[Callable[[], None]]:
        chosen = cycle(self._apart if how == "apart" else self._alike)
        batches = [list(islice(chosen, size)) for _ in range(_ANNOUNCED)]
        if how == "hashes":
            return [partial(self._announce, self._hashes(batch)) for batch in batches]
        stored, table = self._tier.announcer.stored, self._tier.table
        return [partial(stored, table, self._groups(batch, how)) for batch in batches]

    def _announce(self, some: Sequence[Sequence[bytes]]) -> None:
        message = encode_stored(
            self._header,
            [len(hashes) for hashes in some] if len(some) > 1 else (),
            [0] * len(some),
            b"",
            join_hashes(chain.from_iterable(some)),
        )
        self._append([Part(STORED, *self._where, message, message, CHAIN * len(some))])

    def _hashes(self, batch: Sequence[list[int]]) -> list[tuple[bytes, ...]]:
        key_of = self._tier.table.key
        return [tuple(key_of[slot][PREFIX_BYTES:] for slot in slots) for slots in batch]

    def _groups(self, batch: Sequence[list[int]], how: str) -> Groups:
        by_origin = self._tier.table.by_origin
        if how == "apart":
            return [group for slots in batch for group in by_origin(slots)]
        return by_origin([slot for slots in batch for slot in slots])

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
