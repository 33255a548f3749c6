"""How long a tier of files takes to find out what it holds, and how much that disturbs the node.

Usage: python benchmarks/recovery.py [BLOCKS] [DIRECTORY]

Files of one payload of 64 bytes each are written below the directory, without flushes, in chains of
100 blocks; a node starts on them. Told are the seconds from the start of recovery to its end, and
by how much a task that sleeps for a millisecond is late meanwhile: the longest delay, and the one
that 99 of 100 stay below. Payloads are not read, so that their size changes nothing. The files are
in the page cache, since they were just written; otherwise each header costs a read of the disk.
"""

import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import uvloop

from kvtier.server.config import NodeConfig
from kvtier.server.lasting.files import FileShelf
from kvtier.server.lasting.record import Record, encode_header
from kvtier.server.lifecycle import TierServer
from kvtier.server.process.collector import spare_long_lived
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.namespaces import fingerprint

BLOCKS = 300_000
CHAIN, TOKENS, SIZE, WIDTH = 100, 16, 64, 32
LIMIT_SECONDS = 10.0
NAMESPACE = Namespace(
    name="bench",
    model="bench",
    dtype="float16",
    layout="NHD",
    tokens_per_block=TOKENS,
    block_bytes=[SIZE],
    tp_size=1,
    pp_size=1,
    hash_algorithm="sha256",
    hash_width=WIDTH,
)


def records(count: int) -> Iterator[Record]:
    """Yield records of chains, in the order of writing."""
    rng, print_, parent = random.Random(count), fingerprint(NAMESPACE), b""
    for number in range(count):
        place = number % CHAIN
        hash_ = rng.randbytes(WIDTH)
        yield Record(
            print_,
            0,
            b"",
            hash_,
            parent if place else b"",
            place * TOKENS,
            SIZE,
            0,
            "",
            b"",
            number + 1,
        )
        parent = hash_


def write_blocks(directory: Path, count: int) -> None:
    """Write so many blocks as a node would have."""
    shelf = FileShelf(directory, sync="none")
    shelf.describe(fingerprint(NAMESPACE).hex(), NAMESPACE.SerializeToString())

    def put(record: Record) -> None:
        shelf.put(record.name, [encode_header(record), bytes(SIZE)], lambda: True)

    with ThreadPoolExecutor(2) as threads:
        for _ in threads.map(put, records(count), chunksize=1):
            pass
    shelf.close()


async def measure(directory: Path, count: int) -> tuple[float, float, list[float]]:
    """Start a node on what is there; return seconds, those of CPU, and the delays of the loop."""
    fs0 = {"name": "fs0", "medium": "fs", "capacity": "1TiB", "directory": str(directory)}
    config = NodeConfig.model_validate(
        {"node_id": "bench", "listen": "127.0.0.1:0", "tiers": [fs0], "log_level": "warning"}
    )
    server = TierServer(config)
    (tier,) = server.node.tiers
    spare_long_lived()
    starting = asyncio.create_task(server.start())
    started, used, delays = time.perf_counter(), time.process_time(), []
    while tier.health.recovering:
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        delays.append(time.perf_counter() - before - 0.001)
    took, cpu = time.perf_counter() - started, time.process_time() - used
    await starting
    assert tier.occupancy.ready == count, f"{tier.occupancy.ready} of {count} blocks were found"
    server.hurry()
    await server.drain_and_stop()
    return took, cpu, sorted(delays)


def main() -> None:
    """Write, measure, and tell."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else BLOCKS
    where = sys.argv[2] if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory(dir=where) as directory:
        write_blocks(Path(directory) / "fs0", count)
        took, cpu, delays = uvloop.run(measure(Path(directory) / "fs0", count))
    late, usual = delays[-1] * 1e3, delays[len(delays) * 99 // 100] * 1e3
    print(
        f"{count:,} blocks in {took:.1f} s, {took / count * 1e6:.0f} us a block; {cpu:.1f} s of CPU"
    )
    print(f"delays of the loop: longest {late:.1f} ms, 99 of 100 below {usual:.1f} ms")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    if count >= BLOCKS:
        print(f"limit: {LIMIT_SECONDS} s; {'met' if took < LIMIT_SECONDS else 'not met'}")


if __name__ == "__main__":
    main()
