"""Random steps of followers that come and go."""

from random import Random

from .following import Following
from .store_steps import (
    clear_on,
    delete_namespace_on,
    delete_on,
    flood,
    some_node,
    store_at_once,
    store_on,
)
from .world import FILTERS, MOST_GUESTS, World

# Stores that make a snapshot of more bytes than a connection takes in unread.
_ENOUGH_FOR_PAGES = 8
_CHANGES = (store_on, store_on, delete_on, delete_on, clear_on, delete_namespace_on)


async def join(world: World, random: Random) -> str:
    """Let a follower come that nobody knows."""
    nodes = random.sample(world.nodes, random.randint(1, len(world.nodes)))
    wanted = random.choice(FILTERS)
    guest = await world.join(wanted, nodes)
    for following in guest.followings:
        following.come()
    return f"{[node.node_id for node in nodes]} {wanted}"


async def join_under_load(world: World, random: Random) -> str:
    """Let several followers come at once, while everything is written to."""
    for _ in range(MOST_GUESTS):
        guest = await world.join(random.choice(FILTERS), world.nodes)
        for following in guest.followings:
            following.come()
    for _ in range(random.randint(1, 4)):
        await store_at_once(world, random)
    return f"{MOST_GUESTS}"


async def join_from_nowhere(world: World, random: Random) -> str:
    """Let a follower come that claims a position to which the log has not come."""
    node = some_node(world, random)
    guest = await world.join(random.choice(FILTERS), [node])
    (following,) = guest.followings
    following.pretend()
    await following.catch_up()
    return node.node_id


async def leave(world: World, random: Random) -> str:
    """Let a follower stop following a node."""
    here = [each for each in world.followings if not each.away]
    following = random.choice(here)
    await following.leave()
    return following.node.node_id


async def come_back(world: World, random: Random) -> str:
    """Let a follower that left go on from where it was."""
    away = [each for each in world.followings if each.away]
    if not away:
        return "nobody"
    following = random.choice(away)
    following.come()
    return following.node.node_id


async def miss_too_much(world: World, random: Random) -> str:
    """Let a follower leave for so long that the log no longer has what comes next."""
    following = random.choice(world.with_small_logs())
    await following.catch_up()
    await following.leave()
    await flood(following.node, random, batches=following.node.life.ring + 1)
    if random.random() < 0.5:
        await _come_and_leave_again(following, random)
    await following.catch_up()
    return following.node.node_id


async def break_a_snapshot(world: World, random: Random) -> str:
    """Stall in the midst of a snapshot, change what it told, and go on with it or break it off."""
    node = some_node(world, random)
    for _ in range(_ENOUGH_FOR_PAGES):
        await store_on(node, random)
    guest = await world.join(random.choice(FILTERS[:3]), [node])
    (following,) = guest.followings
    relay = following.relay
    relay.hold_after(random.randint(100, 1500))
    following.come()
    while not relay.holding:
        await store_on(node, random)
    for _ in range(random.randint(1, 25)):
        await random.choice(_CHANGES)(node, random)
    broken = random.random() < 0.6
    if broken:
        relay.reset()
    relay.go_on()
    return f"{node.node_id}{', broken off' if broken else ''}"


async def _come_and_leave_again(following: Following, random: Random) -> None:
    """Leave once more in the midst of the snapshot: then there is no position to come back to."""
    following.relay.hold_after(random.randint(300, 1500))
    following.come()
    while not following.relay.holding:
        await store_on(following.node, random)
    await following.leave()
