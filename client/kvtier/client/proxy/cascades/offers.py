"""Offers that are remembered until they are completed."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from kvtier.client.proxy.runs import Runs
from kvtier.v1.result_pb2 import StoreOutcome

# Over all offers: as many as 64 of the largest have that a node takes.
_BLOCKS = 1 << 20


class Offered(NamedTuple):
    """What was offered to the primary, and what it said.

    Attributes:
        tier: The primary's tier.
        runs: The offer.
        outcomes: What it said of each block.
        request_id: The request whose blocks these are.
    """

    tier: str
    runs: Runs
    outcomes: Sequence[StoreOutcome.ValueType]
    request_id: str


class Offers:
    """Offers by the id of their lease; of too many that nobody completes the oldest go.

    Args:
        limit: Most blocks over all offers; an offer that is larger is remembered alone.
    """

    def __init__(self, limit: int = _BLOCKS) -> None:
        self._limit = limit
        self._offers: OrderedDict[bytes, Offered] = OrderedDict()
        self._blocks = 0

    def put(self, lease_id: bytes, offered: Offered) -> None:
        """Remember an offer; one that is made again counts once."""
        self.take(lease_id)
        self._offers[lease_id] = offered
        self._blocks += len(offered.runs)
        while self._blocks > self._limit and len(self._offers) > 1:
            self.take(next(iter(self._offers)))

    def take(self, lease_id: bytes) -> Offered | None:
        """Return an offer and forget it; None when it is not remembered."""
        offered = self._offers.pop(lease_id, None)
        if offered is not None:
            self._blocks -= len(offered.runs)
        return offered
