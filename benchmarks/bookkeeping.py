"""What a tier's bookkeeping costs, a block, over a whole life: store, load, evict.

Usage: python benchmarks/bookkeeping.py [POLICY] [CAPACITY ...]

Each call is of 100 blocks with 32-byte hashes that nobody has seen before, so that a full tier
evicts 100 blocks for each. A cycle takes the hashes apart, reserves, marks as written, publishes,
pins and unpins, with leases, events and the event log; bytes and the wire are left out. The tier is
filled first, then turned over twice; a call's longest time is told for both. Memory is the growth
of the process from before the first block, divided by the capacity; the event log's ring, which
does not grow with the tier, is kept small meanwhile. A plain `OrderedDict` that evicts its oldest
key, without leases, events or positions, runs the same hashes for comparison.
"""

import os
import random
import resource
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from kvtier.server.accounts import Accounts
from kvtier.server.clock import SystemClock
from kvtier.server.events.log import EventLog
from kvtier.server.leases import LOAD, STORE, End, Lease, Leases
from kvtier.server.mappings import Mappings
from kvtier.server.process.collector import spare_long_lived
from kvtier.server.quarantine import Quarantine
from kvtier.server.stores.base import Bytes
from kvtier.server.tiers.announce import Announcer
from kvtier.server.tiers.offer import Run
from kvtier.server.tiers.policies import policy_names
from kvtier.server.tiers.policy import Stamps
from kvtier.server.tiers.spaces import NamespaceInfo, Spaces
from kvtier.server.tiers.tier import Tier
from kvtier.v1.block_pb2 import MEDIUM_CPU
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.v1.tier_pb2 import LeaseKind
from kvtier.wire.hashes import split_hashes

CALL = 100
WIDTH = 32
TURNS = 2
SIZES = [1] * CALL
CAPACITIES = (100_000, 1_000_000)
LIMITS = {100_000: 3.0, 1_000_000: 5.0}
WORST_MS, BYTES = 20.0, 400


class NoBytes:
    """A store that only has a size."""

    medium: int = MEDIUM_CPU
    device = "none"
    inline_bytes: int = 0

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes

    def write(self, position: int, data: bytes | memoryview) -> None:
        """Do nothing."""

    def read(self, position: int, length: int) -> bytes:  # noqa: ARG002 - the interface's
        """Return nothing."""
        return b""

    def write_many(self, positions: Sequence[int], blocks: Sequence[Bytes]) -> None:
        """Do nothing."""

    def read_into(self, positions: Sequence[int], blocks: Sequence[Bytes]) -> None:
        """Do nothing."""

    def views(self, positions: Sequence[int], lengths: Sequence[int]) -> None:
        """Return nothing."""

    def close(self) -> None:
        """Do nothing."""


class Cycle:
    """A tier, and one call's worth of its life."""

    def __init__(self, capacity: int, policy: str) -> None:
        clock, log = SystemClock(), EventLog(epoch=1, max_batches=1024, max_bytes=1 << 20)
        spaces = Spaces()
        self.tier = Tier(
            "cpu0",
            NoBytes(capacity),
            capacity_bytes=capacity,
            policy_name=policy,
            announcer=Announcer(0, "cpu0", MEDIUM_CPU, log),
            spaces=spaces,
            stamps=Stamps(),
            clock=clock,
        )
        self.tier.fix_slots(1)
        accounts = Accounts(
            most=1 << 20, per_caller=1 << 20, per_owner=10, leased_bytes=1 << 40, pinned_bytes=1
        )
        quarantine = Quarantine(Mappings(1), clock, 60.0)
        self.leases = Leases(clock, 1, accounts, quarantine)
        description = Namespace(
            name="bench", hash_width=WIDTH, tokens_per_block=16, block_bytes=[1]
        )
        self.namespace = NamespaceInfo.of(bytes(32), description)
        self.space = spaces.use(self.namespace, 0, b"")

    def run(self, number: int, packed: bytes) -> None:
        """Store, load and unpin 100 new blocks; a full tier evicts as many."""
        tier, leases = self.tier, self.leases
        run = Run(self.space, split_hashes(packed, WIDTH))
        reserved = tier.reserve(str(number), [run])
        lease = self._lease(packed[:16], STORE, reserved.slots)
        tier.mark_written(reserved.slots, [number] * CALL)
        tier.publish(reserved.slots)
        leases.end(lease, End.COMPLETED)
        keys = self.space.keys(split_hashes(packed, WIDTH))
        _, found, _ = tier.load(f"load {number}", keys)
        pinned = [slot for slot in found if slot is not None]
        lease = self._lease(packed[16:32], LOAD, pinned)
        tier.occupancy.unpin(pinned)
        leases.end(lease, End.COMPLETED)

    def _lease(self, lease_id: bytes, kind: LeaseKind.ValueType, slots: list[int]) -> Lease:
        slots_by_place = dict(enumerate(slots))
        lease = Lease(
            lease_id, "bench", kind, self.tier, self.namespace, b"", slots_by_place, SIZES, {}
        )
        self.leases.open(lease, 30.0)
        return lease


def measure_tier(capacity: int, policy: str) -> None:
    """Print what one capacity costs: µs a block, worst ms, bytes a block."""
    before = _resident()
    cycle = Cycle(capacity, policy)
    spare_long_lived()
    rng = random.Random(capacity)
    worst = spent = 0.0
    calls = capacity // CALL
    for number in range(calls * (1 + TURNS)):
        packed = rng.randbytes(CALL * WIDTH)
        start = time.perf_counter()
        cycle.run(number, packed)
        took = time.perf_counter() - start
        worst = max(worst, took)
        spent += took if number >= calls else 0.0
    assert cycle.tier.occupancy.ready == capacity // CALL * CALL
    grown = (_resident() - before) / capacity
    print(spent / (calls * TURNS * CALL) * 1e6, worst * 1e3, grown)


def measure_ordered_dict(capacity: int) -> None:
    """Print what a plain OrderedDict costs: µs a block."""
    rng = random.Random(capacity)
    order: OrderedDict[bytes, int] = OrderedDict()
    free = list(range(capacity))
    calls = capacity // CALL
    spent = 0.0
    for number in range(calls * (1 + TURNS)):
        packed = rng.randbytes(CALL * WIDTH)
        start = time.perf_counter()
        keys = split_hashes(packed, WIDTH)
        for key in keys:
            if not free:
                free.append(order.popitem(last=False)[1])
            order[key] = free.pop()
        for key in keys:
            order.move_to_end(key)
        spent += time.perf_counter() - start if number >= calls else 0.0
    print(spent / (calls * TURNS * CALL) * 1e6)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _child(what: str, *arguments: object) -> list[float]:
    """Run one measurement in a process of its own, so that none inherits another's memory."""
    command = [sys.executable, __file__, what, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    return [float(field) for field in done.stdout.split()]


def main() -> None:
    """Measure each capacity, and an OrderedDict between, and print a table."""
    arguments = sys.argv[1:]
    policy = arguments.pop(0) if arguments and arguments[0] in policy_names() else "lru"
    capacities = [int(c.replace("_", "")) for c in arguments] or list(CAPACITIES)
    print(f"{'capacity':>10} {'µs/block':>9} {'limit':>6} {'OrderedDict':>12} {'ratio':>6} "
          f"{'worst ms':>9} {'limit':>6} {'bytes/block':>12} {'limit':>6}")  # fmt: skip
    for capacity in capacities:
        (plain,) = _child("ordered-dict", capacity)
        micros, worst, grown = _child("tier", capacity, policy)
        limit = LIMITS.get(capacity, 5.0)
        print(f"{capacity:>10,} {micros:>9.2f} {limit:>6.1f} {plain:>12.2f} {micros / plain:>6.2f} "
              f"{worst:>9.1f} {WORST_MS:>6.0f} {grown:>12.0f} {BYTES:>6}")  # fmt: skip


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["tier", capacity, policy]:
            measure_tier(int(capacity), policy)
        case ["ordered-dict", capacity]:
            measure_ordered_dict(int(capacity))
        case _:
            main()
