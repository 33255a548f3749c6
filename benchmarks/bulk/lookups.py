"""Small lookups of one client while another moves blocks, beside the same on an idle node."""

import asyncio
import time
from collections import defaultdict
from multiprocessing.connection import Connection

from benchmarks.bulk import client, kvtier_stream
from benchmarks.bulk.hosts import BLOCK_BYTES
from benchmarks.bulk.kvtier_stream import KvtierStream
from benchmarks.bulk.node import NAMESPACE, hashes_of
from benchmarks.bulk.options import Options
from benchmarks.events import loops, table
from benchmarks.events.worker import Worker, Workers, obey
from kvtier.client import NodeClient
from kvtier.v1.block_pb2 import BlockSet

AIM = 3.0
_BATCH = 32
_BLOCKS = 24
_LOOKUPS = 500
_PAUSE = 0.002
_CALLS = 8


def measure(options: Options) -> None:
    """Measure lookups beside nothing, puts and gets, in turns, and print a table."""
    with Workers() as workers:
        mover = workers.start(_move)
        asker = workers.start(_ask, mover.ask("address"))
        mover.ask("use", _BATCH, BLOCK_BYTES)
        took = defaultdict[str, list[list[float]]](list)
        for turn in range(options.turns + 1):
            for way in ("idle", "put", "get"):
                seconds = _beside(way, mover, asker, options)
                if turn:  # the first fills caches
                    took[way].append(seconds)
    columns = ("beside", "p50 ms", "p99 ms", "p99 to idle", f"(aim {AIM:.0f} or less)")
    table.show(
        f"Lookups of {_BLOCKS} blocks by one client, beside another that moves blocks",
        columns,
        [
            (
                way,
                *(
                    table.middle([table.percentile(turn, percent) * 1e3 for turn in turns], ".2f")
                    for percent in (50, 99)
                ),
                table.ratio(*([table.percentile(t, 99) for t in took[w]] for w in (way, "idle"))),
                "",
            )
            for way, turns in took.items()
        ],
    )


def _beside(way: str, mover: Worker, asker: Worker, options: Options) -> list[float]:
    """Return what lookups took; blocks are moved as long as they go on."""
    asker.tell("ask", options.calls(_LOOKUPS))
    while way != "idle" and not asker.answered:
        mover.ask(way, options.calls(_CALLS))
    seconds: list[float] = asker.answer()
    return seconds


class _Mover(client.Client):
    """A client that also tells where its node is."""

    def __init__(self, contender: KvtierStream) -> None:
        super().__init__(contender)
        self._address = contender.address

    def address(self) -> str:
        """Return where the node listens."""
        return self._address


class _Asker:
    """Asks a node where some blocks are, at a steady pace.

    Args:
        node: The node's client.
        namespace: The fingerprint of a registered namespace.
    """

    def __init__(self, node: NodeClient, namespace: bytes) -> None:
        self._node = node
        self._namespace = namespace

    async def ask(self, lookups: int) -> list[float]:
        """Return the seconds that each lookup took."""
        blocks, took = [BlockSet(block_hashes=hashes_of(1 << 31, _BLOCKS))], []
        for _ in range(lookups):
            begun = time.perf_counter()
            await self._node.lookup(self._namespace, blocks)
            took.append(time.perf_counter() - begun)
            await asyncio.sleep(_PAUSE)
        return took


def _move(pipe: Connection) -> None:
    contender = kvtier_stream.open()
    try:
        obey(pipe, _Mover(contender))
    finally:
        contender.close()


def _ask(pipe: Connection, address: str) -> None:
    loops.run(_serve_asker, pipe, address)


async def _serve_asker(pipe: Connection, address: str) -> None:
    async with NodeClient(address) as node:
        await loops.obey(pipe, _Asker(node, await node.register_namespace(NAMESPACE)))
