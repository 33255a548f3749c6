"""Checking what events say and what a node lists against each other."""

from collections.abc import Mapping

from kvtier.cli.checking.comparison import Comparison, TierComparison
from kvtier.cli.checking.difference import Difference
from kvtier.cli.checking.observe import EVERYTHING, Observer, Wanted
from kvtier.cli.follow import View
from kvtier.client import NodeClient

_ROUNDS = 20


async def compare(client: NodeClient, view: View, wanted: Wanted = EVERYTHING) -> Comparison:
    """Compare a view of a node's tiers with the node's own listing.

    The node may be at work: `kvtier.cli.checking.difference` says what counts as a difference then.

    All wanted tiers are listed once. Blocks that differ but that events told of meanwhile are
    looked up again, in up to 20 rounds, until none is open; each round is shorter than the last.
    A round in which the view begins anew, because the node restarted or the follower fell behind,
    is worth nothing, and the listing begins anew too.

    Raises:
        CommandError: When the view does not come to the node's head, or an event cannot be read.
        KvtierError: When a call fails.
    """
    observer = await Observer.of(client, view, wanted)
    found: dict[str, TierComparison] | None = None
    rounds = 0
    while rounds < _ROUNDS and (found is None or _open(found)):
        rounds += 1
        found = await (observer.list_all() if found is None else observer.look_again(found))
    return Comparison(
        node_id=observer.node_id,
        tiers=found or {name: TierComparison(0, 0, Difference()) for name in observer.tiers},
        silent=observer.silent,
        recovering=observer.recovering,
        position=view.arrival.position(observer.node_id),
        rounds=rounds,
        whole=found is not None,
    )


def _open(found: Mapping[str, TierComparison]) -> bool:
    return any(tier.difference.open for tier in found.values())
