"""What callers ask a node for, and how much of it there is."""

from collections.abc import Sequence
from dataclasses import dataclass

from kvtier.server.tiers.tier import Tier
from kvtier.v1.result_pb2 import (
    LOOKUP_RESULT_HIT,
    LOOKUP_RESULT_HIT_PENDING,
    LOOKUP_RESULT_MISS,
    LOOKUP_RESULT_RETRY,
    LookupResult,
)


@dataclass(slots=True)
class Demand:
    """Blocks that were asked for since the start, as often as they were.

    Attributes:
        absent: Those that loads and reads asked for and that were not there.
        pending: Those that were on their way into the tier, or could be brought up.
        recovering: Those that a tier may hold that does not know yet what it holds.
        looked_up: Those that lookups asked for.
        found: Those of them that were readable with all before them in their chain.
    """

    absent: int = 0
    pending: int = 0
    recovering: int = 0
    looked_up: int = 0
    found: int = 0

    def count_load(
        self, tier: Tier, results: Sequence[LookupResult.ValueType], *, recovering: bool
    ) -> None:
        """Count what a load or a read of a tier found.

        Args:
            tier: The tier.
            results: The result of each block, in which RETRY is one that could be brought up.
            recovering: Whether what is not there may be there after all.
        """
        tier.tally.hits += results.count(LOOKUP_RESULT_HIT)
        self.pending += results.count(LOOKUP_RESULT_HIT_PENDING)
        self.pending += results.count(LOOKUP_RESULT_RETRY)
        missing = results.count(LOOKUP_RESULT_MISS)
        if recovering:
            self.recovering += missing
        else:
            self.absent += missing

    def count_lookup(self, blocks: int, found: int) -> None:
        """Count what a lookup of a chain found: the blocks of the longest prefix over all tiers."""
        self.looked_up += blocks
        self.found += found
