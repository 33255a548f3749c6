"""How fast counters rise, from what a node told at two times."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from kvtier.cli.output import Record

RATES = ("stored", "loaded", "removed", "evicted", "demoted", "promoted")


class Sample(NamedTuple):
    """What a node told at one time.

    Attributes:
        seconds: When, by a clock that only goes on.
        node: The node.
        tiers: Its tiers.
    """

    seconds: float
    node: Record
    tiers: list[dict[str, Any]]


def with_rates(before: Sample | None, now: Sample) -> dict[str, Any]:
    """Return the node with its tiers, and a rate a second beside each counter.

    A rate is None where there is nothing to compare with: at first, after a new start, of a tier
    that a proxy does not reach, and of the log's batches at a proxy, which has none.
    """
    past = before if before is not None and _same_life(before.node, now.node) else None
    tiers = {} if past is None else {tier["name"]: tier["counters"] for tier in past.tiers}
    elapsed = 0.0 if past is None else now.seconds - past.seconds
    return {
        **now.node,
        "batches_per_s": _rate(_sequence(past), _sequence(now), elapsed),
        "tiers": [
            {**tier, **_tier_rates(tiers.get(tier["name"]), tier["counters"], elapsed)}
            for tier in now.tiers
        ],
    }


def _same_life(before: Record, now: Record) -> bool:
    return bool(before["incarnation"] == now["incarnation"])


def _sequence(sample: Sample | None) -> int | None:
    head = sample.node["head"] if sample is not None else None
    return head["sequence"] if head else None


def _tier_rates(
    before: Mapping[str, int] | None, now: Mapping[str, int] | None, elapsed: float
) -> dict[str, float | None]:
    # A proxy knows no counters of a node that is out of its reach.
    before, now = before or {}, now or {}
    return {f"{name}_per_s": _rate(before.get(name), now.get(name), elapsed) for name in RATES}


def _rate(before: int | None, now: int | None, elapsed: float) -> float | None:
    # A counter behind a proxy begins anew when its node does.
    if before is None or now is None or now < before or elapsed <= 0:
        return None
    return round((now - before) / elapsed, 3)
