"""What must hold at the end of a demo."""

import random
from collections.abc import Mapping

from kvtier.cli.checking.verify import compare
from kvtier.cli.demo.plan import Plan
from kvtier.cli.demo.rounds import Rounds
from kvtier.cli.demo.sample import load_sample
from kvtier.cli.demo.screen import Check
from kvtier.client import NodeClient

_SAMPLE = 64


async def check_all(plan: Plan, clients: Mapping[str, NodeClient], rounds: Rounds) -> list[Check]:
    """Check the follower's view, the blocks' bytes, the order of the stream and its sums."""
    return [
        await _view_equals_listings(plan, clients, rounds),
        await _blocks_load_exact(plan, clients, rounds),
        primary_first(rounds),
        never_too_full(plan, rounds),
        counts_add_up(plan, rounds),
    ]


async def _view_equals_listings(
    plan: Plan, clients: Mapping[str, NodeClient], rounds: Rounds
) -> Check:
    found = [await compare(client, rounds.follower) for client in clients.values()]
    listed = sum(each.listed for each in found)
    text = f"a follower sees what the {len(plan.capacities)} tiers list: {listed:,} blocks"
    if not all(each.settled for each in found):
        text = "the nodes did not stand still to be listed"
    elif not all(each.equal for each in found):
        missing, surplus = sum(e.missing for e in found), sum(e.surplus for e in found)
        text += f", but for {missing:,} that it misses and {surplus:,} that are gone"
    return Check("view_equals_listing", all(each.equal for each in found), text)


async def _blocks_load_exact(
    plan: Plan, clients: Mapping[str, NodeClient], rounds: Rounds
) -> Check:
    chance = random.Random(0)  # noqa: S311 - any sample will do, and the same one each time
    loads = [
        await load_sample(clients[key.node_id], rounds.follower, key, count=_SAMPLE, chance=chance)
        for key in plan.capacities
    ]
    asked, exact = sum(load[0] for load in loads), sum(load[1] for load in loads)
    text = f"{exact} of {asked} sampled blocks load byte-exact, from every tier"
    return Check("blocks_load_exact", all(asked == exact > 0 for asked, exact in loads), text)


def primary_first(rounds: Rounds) -> Check:
    """Check that no message of the primary came after another node's in a round."""
    good = rounds.count - rounds.out_of_order
    text = f"the primary came first in {good:,} of {rounds.count:,} rounds of the merged stream"
    return Check("primary_first", rounds.count > 0 and not rounds.out_of_order, text)


def never_too_full(plan: Plan, rounds: Rounds) -> Check:
    """Check that removals came ahead of the stores that took their room."""
    highest = rounds.follower.highest
    over = [key for key, capacity in plan.capacities.items() if highest[key] > capacity]
    text = "room was made before it was used: no tier ever showed more blocks than it holds"
    if over:
        text = f"{', '.join(map('/'.join, over))} showed more blocks than it holds"
    return Check("never_above_capacity", not over, text)


def counts_add_up(plan: Plan, rounds: Rounds) -> Check:
    """Check that stores less removals are what each tier holds, which began empty."""
    follower = rounds.follower
    wrong = [
        key
        for key in plan.capacities
        if follower.stored[key] - follower.removed[key] != follower.resident(key)
    ]
    text = "no event was missed: stored less removed is what each tier holds"
    if wrong or follower.gaps:
        text = f"events are missing: the stream began anew {follower.gaps} times"
    return Check("counts_add_up", not wrong and not follower.gaps, text)
