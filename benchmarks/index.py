"""What a `BlockIndex` of many nodes costs: queries, room, and removing a node.

Usage: python benchmarks/index.py [BLOCKS [NODES]]

Every node holds the same two chains of 1,000 blocks and its share of other blocks, in one tier or
scattered at random over two; BLOCKS is the sum over nodes and tiers. A query is about one of the
chains, with keys whose hash Python has not computed yet, over all nodes and over one. The floor is
1,000 lookups in one plain dict of the same hashes. Then one node is removed, then half of the
others; sweep is the longest that a message took afterwards. Times are CPU times, of queries the
median.
"""

import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kvtier.client import BlockIndex
from kvtier.v1.event_service_pb2 import (
    BlockStored,
    Progress,
    Reset,
    SnapshotPage,
    Synced,
    WatchEventsResponse,
)
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.namespaces import fingerprint

CHAINS, LENGTH, WIDTH = 2, 1000, 32
NAMESPACE = Namespace(
    name="bench",
    model="bench",
    dtype="uint8",
    layout="opaque",
    tokens_per_block=16,
    block_bytes=[1],
    tp_size=1,
    pp_size=1,
    hash_algorithm="random",
    hash_width=WIDTH,
)
FINGERPRINT = fingerprint(NAMESPACE)


class Cluster:
    """An index, filled by the messages that nodes would send."""

    def __init__(self, tiers: int, blocks: int, nodes: int) -> None:
        self.rng = random.Random(blocks)
        self.index = BlockIndex()
        self.nodes = [f"node-{number}" for number in range(nodes)]
        self.tiers = [f"tier-{number}" for number in range(tiers)]
        self.chains = [[self.rng.randbytes(WIDTH) for _ in range(LENGTH)] for _ in range(CHAINS)]
        self.worst = self.spent = 0.0
        for node in self.nodes:
            self._fill(node, blocks // nodes - CHAINS * LENGTH)

    def say(self, node: str, **kind: object) -> None:
        """Apply a message of a node."""
        message = WatchEventsResponse(node_id=node, epoch=1, **kind)  # type: ignore[arg-type]
        started = time.thread_time()
        self.index.apply(message)
        took = time.thread_time() - started
        self.spent += took
        self.worst = max(self.worst, took)

    def _fill(self, node: str, others: int) -> None:
        self.say(node, reset=Reset())
        self.say(node, namespace=NAMESPACE)
        for chain in self.chains:
            self.say(node, snapshot=SnapshotPage(stored=self._scattered(chain)))
        for first in range(0, others, LENGTH):
            count = min(LENGTH, others - first)
            hashes = [self.rng.randbytes(WIDTH) for _ in range(count)]
            self.say(node, snapshot=SnapshotPage(stored=self._scattered(hashes)))
        self.say(node, synced=Synced(blocks=CHAINS * LENGTH + others))

    def _scattered(self, hashes: list[bytes]) -> Iterator[BlockStored]:
        places = self.rng.choices(self.tiers, k=len(hashes))
        for tier in self.tiers:
            mine = [each for each, place in zip(hashes, places, strict=True) if place == tier]
            yield BlockStored(tier=tier, namespace=FINGERPRINT, block_hashes=b"".join(mine))

    def query(self, nodes: list[str] | None) -> float:
        """Return the milliseconds of a query about a whole chain."""

        def ask(chain: list[bytes]) -> None:
            lengths = self.index.prefix(FINGERPRINT, 0, b"", chain, nodes=nodes).nodes
            assert set(lengths.values()) == {LENGTH}

        return self.median(ask)

    def floor(self) -> float:
        """Return the milliseconds of as many lookups in a plain dict."""
        plain = {
            key.block_hash: 1
            for node in self.nodes
            for tier in self.tiers
            for key in self.index.blocks(node, tier)
        }
        return self.median(lambda chain: [plain.get(each, 0) for each in chain])

    def median(self, act: Callable[[list[bytes]], object]) -> float:
        """Return the median of some tries, in milliseconds."""
        tries = []
        for chain in self.chains * 32:
            cold = [bytes(bytearray(each)) for each in chain]
            started = time.thread_time()
            act(cold)
            tries.append(time.thread_time() - started)
        return sorted(tries)[len(tries) // 2] * 1e3


def measure(tiers: int, blocks: int, nodes: int) -> None:
    """Print the figures of one cluster, as one row."""
    before = _resident()
    cluster = Cluster(tiers, blocks, nodes)
    size = (_resident() - before) / blocks
    apply = cluster.spent / blocks * 1e6
    everyone, one = cluster.query(None), cluster.query(cluster.nodes[:1])
    floor = cluster.floor()
    started = time.thread_time()
    cluster.index.forget(cluster.nodes[1])
    forget = (time.thread_time() - started) * 1e3
    for node in cluster.nodes[2::2]:
        cluster.index.forget(node)
    cluster.worst = 0.0
    for _ in range(1000):
        cluster.say(cluster.nodes[0], progress=Progress())
    sweep = cluster.worst * 1e3
    row = (apply, size, everyone, one, floor, everyone / floor, forget, sweep)
    print(f"{tiers:>5} {blocks:>9,} {nodes:>5}", *(f"{each:>9.3f}" for each in row))


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main() -> None:
    """Measure each number of tiers in a process of its own, and print a table."""
    blocks, nodes = [*map(int, sys.argv[1:]), 1_000_000, 50][:2] if sys.argv[1:] else (10**6, 50)
    titles = (
        "µs/block",
        "B/block",
        "all ms",
        "one ms",
        "floor ms",
        "ratio",
        "forget ms",
        "sweep ms",
    )
    limits = ("", "150", "1", "0.3", "", "", "", "")
    print(f"{'tiers':>5} {'blocks':>9} {'nodes':>5}", *(f"{each:>9}" for each in titles))
    print(f"{'':>15} {'limit':>5}", *(f"{each:>9}" for each in limits), flush=True)
    for tiers in (1, 2):
        command = [sys.executable, __file__, "tiers", str(tiers), str(blocks), str(nodes)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["tiers", *numbers]:
            measure(*map(int, numbers))
        case _:
            main()
