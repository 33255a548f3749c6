"""Storing a block from its n-th offer on."""

from collections import OrderedDict
from dataclasses import replace

from kvtier.server.tiers.offer import DEFERRED, Plan


class Threshold:
    """Counts the offers of blocks that are not there.

    Args:
        offers: From which offer on a block is stored, at least 2.
        tracked: Keys whose offers are remembered. Beyond that the one that was offered longest ago
            is forgotten; of one offer the last.

    Attributes:
        offers: As given.
    """

    def __init__(self, offers: int, tracked: int) -> None:
        self.offers = offers
        self._tracked = tracked
        self._counts: OrderedDict[bytes, int] = OrderedDict()

    def judge(self, plan: Plan) -> Plan:
        """Return a plan that defers the blocks whose time has not come; nothing is counted yet."""
        known, most, keys = self._counts, self.offers, plan.keys
        counts = {keys[place]: min(known.get(keys[place], 0) + 1, most) for place in plan.fresh}
        early = {place for place in plan.fresh if counts[keys[place]] < most}
        if not early:
            return replace(plan, offers=counts)
        outcomes = list(plan.outcomes)
        for place in (*early, *(p for p, first in plan.aliases.items() if first in early)):
            outcomes[place] = DEFERRED
        return replace(
            plan,
            outcomes=outcomes,
            fresh=[place for place in plan.fresh if place not in early],
            aliases={p: first for p, first in plan.aliases.items() if first not in early},
            offers=counts,
        )

    def count(self, plan: Plan) -> int:
        """Remember the offers of a granted plan; return how many places of it are deferred."""
        known, counts = self._counts, plan.offers
        # The blocks after it are of no use without the first, so that it is forgotten last.
        for key in reversed(list(counts)):
            known[key] = counts[key]
            known.move_to_end(key)
        for _ in range(len(known) - self._tracked):
            known.popitem(last=False)
        return plan.outcomes.count(DEFERRED)
