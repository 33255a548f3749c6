"""Deciding what to bring to the primary from where, without I/O."""

from collections.abc import Callable, Mapping, Sequence

from kvtier.client.answers import TierOf
from kvtier.v1.result_pb2 import LookupResult

HIT = LookupResult.LOOKUP_RESULT_HIT
HIT_PENDING = LookupResult.LOOKUP_RESULT_HIT_PENDING
MISS = LookupResult.LOOKUP_RESULT_MISS
RETRY = LookupResult.LOOKUP_RESULT_RETRY

Holders = tuple[TierOf, ...]


def lacking(
    results: Sequence[LookupResult.ValueType], holders: Sequence[Holders], primary: str
) -> list[int]:
    """Return the places of the blocks that only another node may have.

    A block that the primary has in a slower tier without room for it above is RETRY there: bringing
    it from elsewhere would not help.

    Args:
        results: What the primary answered for each block.
        holders: Who has each block, as far as the index knows.
        primary: The primary's node id.
    """
    return [
        place
        for place, (result, held) in enumerate(zip(results, holders, strict=True))
        if result == MISS or (result == RETRY and all(each.node != primary for each in held))
    ]


def choose(
    places: Sequence[int],
    holders: Sequence[Holders],
    order: Sequence[TierOf],
    barred: Callable[[int, str], bool],
) -> dict[TierOf, list[int]]:
    """Return what to bring from where: each block from the first in order that has it.

    Args:
        places: The places of the blocks that are wanted.
        holders: Who has each block.
        order: Whom to ask, first to last: secondaries in their order, fastest tiers first.
        barred: Tells, by its place, of a block that a node is not to be asked for.
    """
    ranks = {tier: rank for rank, tier in enumerate(order)}
    ranked: dict[Holders, list[TierOf]] = {}
    chosen: dict[TierOf, list[int]] = {}
    for place in places:
        held = holders[place]
        if held not in ranked:
            ranked[held] = sorted((each for each in held if each in ranks), key=ranks.__getitem__)
        source = next((each for each in ranked[held] if not barred(place, each.node)), None)
        if source is not None:
            chosen.setdefault(source, []).append(place)
    return chosen


def tell(
    results: Sequence[LookupResult.ValueType], brought: Mapping[int, LookupResult.ValueType]
) -> list[LookupResult.ValueType]:
    """Return what to tell of each block of a load.

    Args:
        results: What the primary answered with the lease.
        brought: What came of bringing blocks, by their places. What came and is not there is gone
            again.
    """
    told = list(results)
    for place, found in brought.items():
        if told[place] in {MISS, RETRY} and found != MISS:
            told[place] = RETRY if found == HIT else found
    return told
