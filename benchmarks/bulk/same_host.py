"""On one host: batches of 2 MiB blocks through memory, beside a plain copy, Redis and our stream.

All batches of a pool larger than the caches are moved in one go, by each contender as it does it
best: ours with several batches under way. The checksums of ours, made when storing and verified
when loading, are part of its figure.
"""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection

from benchmarks.bulk import redis_tcp
from benchmarks.bulk.child import cpu_seconds
from benchmarks.bulk.client import Cost
from benchmarks.bulk.movers import MOVERS
from benchmarks.bulk.options import Options
from benchmarks.events import table
from benchmarks.events.worker import Worker, Workers, obey

BLOCK_BYTES = 2 << 20
BATCHES = (1, 8, 32)
POOL, TINY_POOL = 128, 8
LIMIT, PEER, STREAM = "memcpy", "Redis", "kvtier, stream"
_AIMS = {1: "(aims: 1 of Redis)", 8: "(aims: 0.75, 3)", 32: "(aims: 0.8, 3)"}
_COLUMNS = (*("", "", "GB/s", "to memcpy", "to Redis", "to stream", "client s/GB", "server s/GB"),)

Costs = Mapping[tuple[str, str], Sequence[Cost]]


class Pool:
    """The client process of one contender, with a pool of blocks and buffers for them.

    Args:
        name: Which of `MOVERS`.
        blocks: How many blocks the pool has.
    """

    def __init__(self, name: str, blocks: int) -> None:
        size = blocks * BLOCK_BYTES
        self._blocks = memoryview(random.randbytes(BLOCK_BYTES) * blocks)
        self._buffers = memoryview(bytearray(b"\1") * size)
        self._mover = MOVERS[name](size)

    def put(self, batch: int) -> Cost:
        """Put the pool in batches of so many blocks."""
        batches = _cut(self._blocks, batch)
        return self._measure(lambda: self._mover.put(batches))

    def get(self, batch: int) -> Cost:
        """Get the pool back in the batches in which it was put."""
        buffers = _cut(self._buffers, batch)
        return self._measure(lambda: self._mover.get(buffers))

    def close(self) -> None:
        """End the servers."""
        self._mover.close()

    def _measure(self, act: Callable[[], None]) -> Cost:
        before = self._spent()
        begun = time.perf_counter()
        act()
        seconds = time.perf_counter() - begun
        client, servers = self._spent()
        moved = len(self._blocks)
        return Cost(moved, seconds, client - before[0], servers - before[1])

    def _spent(self) -> tuple[float, float]:
        return time.process_time(), sum(map(cpu_seconds, self._mover.servers))


def measure(options: Options) -> None:
    """Measure every size of batches, and print a table of each."""
    names = [name for name in MOVERS if name != PEER or _redis_is_there()]
    with Workers() as workers:
        blocks = TINY_POOL if options.tiny else POOL
        pools = {name: workers.start(main, name, blocks) for name in names}
        for batch in options.some(BATCHES):
            table.show(
                f"On one host, batches of {batch} {_AIMS[batch]}",
                _COLUMNS,
                _rows(_take_turns(pools, batch, options), names),
            )


def main(pipe: Connection, name: str, blocks: int) -> None:
    """Run one contender."""
    pool = Pool(name, blocks)
    try:
        obey(pipe, pool)
    finally:
        pool.close()


def _redis_is_there() -> bool:
    lacks = redis_tcp.missing()
    if lacks:
        print(f"Without {PEER}: {lacks}.")
    return not lacks


def _take_turns(pools: Mapping[str, Worker], batch: int, options: Options) -> Costs:
    costs = defaultdict[tuple[str, str], list[Cost]](list)
    for turn in range(options.turns + 1):
        for way in ("put", "get"):
            for name, pool in pools.items():
                cost = pool.ask(way, batch)
                if turn:  # the first fills caches
                    costs[way, name].append(cost)
    return costs


def _cut(memory: memoryview, batch: int) -> list[list[memoryview]]:
    blocks = [memory[at : at + BLOCK_BYTES] for at in range(0, len(memory), BLOCK_BYTES)]
    return [blocks[first : first + batch] for first in range(0, len(blocks), batch)]


def _rows(costs: Costs, names: Sequence[str]) -> Iterator[Sequence[str]]:
    for way in ("put", "get"):
        rates = {name: [cost.rate for cost in costs[way, name]] for name in names}
        for name in names:
            mine = costs[way, name]
            yield (
                way,
                name,
                table.middle(rates[name], ".2f"),
                *(
                    table.ratio(rates[name], rates.get(other, []))
                    for other in (LIMIT, PEER, STREAM)
                ),
                table.middle([cost.client / cost.moved * 1e9 for cost in mine], ".2f"),
                table.middle([cost.servers / cost.moved * 1e9 for cost in mine], ".2f"),
            )
