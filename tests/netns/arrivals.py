"""When messages of a merged stream came, and how a proxy does while something is wrong."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, inf
from statistics import median
from typing import TYPE_CHECKING

from kvtier.v1.event_service_pb2 import WatchEventsResponse
from tests.contract.support import block_hash

if TYPE_CHECKING:
    from .cluster import Cluster

PAUSE = 0.02
# What a busy machine may add, in seconds. What waits for a node that is out of reach would be later
# by all the time that it has to answer, which is more.
NOISE = 1.0


class Arrivals:
    """What came when.

    Attributes:
        stored: When each node's store of a block was told first, by node id and hashes.
        sequences: The batches of each node, as they came.
        heard: When each node's own messages came.
    """

    def __init__(self) -> None:
        self.stored: dict[tuple[str, bytes], float] = {}
        self.sequences: defaultdict[str, list[int]] = defaultdict(list)
        self.heard: defaultdict[str, list[float]] = defaultdict(list)

    def silence(self, name: str, since: float) -> float:
        """Return the longest time without a message of a node's own, in seconds, since a moment."""
        heard = [since, *(when for when in self.heard[name] if when > since)]
        return max((later - sooner for sooner, later in pairwise(heard)), default=inf)

    def in_order(self, name: str) -> bool:
        """Tell whether a node's batches came in order, each once, and none is missing."""
        came = self.sequences[name]
        return came == list(range(came[0], came[0] + len(came)))

    async def noting(
        self, messages: AsyncIterator[WatchEventsResponse]
    ) -> AsyncIterator[WatchEventsResponse]:
        """Hand messages on, and note them."""
        loop = asyncio.get_running_loop()
        async for message in messages:
            now = loop.time()
            if not message.state.source:
                self.heard[message.node_id].append(now)
            for batch in message.batches.batches:
                self.sequences[message.node_id].append(batch.sequence)
                for stored in batch.stored:
                    self.stored.setdefault((message.node_id, stored.block_hashes), now)
            yield message


@dataclass
class Pace:
    """How long things took, in seconds.

    Attributes:
        events: From the begin of a store on the primary until its event came.
        lookups: A lookup by the proxy of a block of the primary.
        missed: Lookups that did not find it.
    """

    events: list[float] = field(default_factory=list)
    lookups: list[float] = field(default_factory=list)
    missed: int = 0


def changes(calm: Pace, troubled: Pace) -> list[str]:
    """Return what trouble elsewhere changed, beyond what a busy machine does."""
    pairs = {
        "median of events": (median(calm.events), median(troubled.events), NOISE / 10),
        "p99 of events": (_p99(calm.events), _p99(troubled.events), NOISE),
        "longest lookup": (max(calm.lookups), max(troubled.lookups), NOISE),
    }
    found = [
        f"{what}: {before:.3f} s before, {during:.3f} s in trouble"
        for what, (before, during, noise) in pairs.items()
        if during > 2 * before + noise
    ]
    missed = calm.missed + troubled.missed
    return [*found, f"{missed} lookups missed"] if missed else found


def _p99(values: list[float]) -> float:
    return sorted(values)[ceil(0.99 * len(values)) - 1]


@asynccontextmanager
async def pacing(cluster: "Cluster", phase: str) -> AsyncIterator[Pace]:
    """Store blocks on the primary at an even pace, and look up each, while the body runs.

    A store waits for no event, so all that are held up show how long.
    """
    pace = Pace()
    begun: dict[object, float] = {}
    probe = asyncio.create_task(_probe(cluster, phase, begun, pace))
    try:
        yield pace
        if probe.done():
            probe.result()
    finally:
        probe.cancel()
        await asyncio.gather(probe, return_exceptions=True)
    name, arrivals = cluster.primary.name, cluster.arrivals.stored
    keys = {(name, block_hash(block)): when for block, when in begun.items()}
    await cluster.view.until(lambda: arrivals.keys() >= keys.keys())
    pace.events += [arrivals[key] - when for key, when in keys.items()]


async def _probe(cluster: "Cluster", phase: str, begun: dict[object, float], pace: Pace) -> None:
    loop = asyncio.get_running_loop()
    step = 0
    while True:
        block = (phase, step)
        when = loop.time()
        await cluster.primary.store(block)
        begun[block] = when
        when = loop.time()
        pace.missed += await cluster.looked_up(block) != ["HIT"]
        pace.lookups.append(loop.time() - when)
        step += 1
        await asyncio.sleep(PAUSE)
