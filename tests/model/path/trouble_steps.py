"""Random steps of what goes wrong: connections, followers that stand still, nodes that end."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from .following import Following
from .nodes import PathNode
from .store_steps import flood, some_node, store_on
from .world import World

T = TypeVar("T")

# More than lies between a node that sends and a reader who does not read.
_ON_THE_WAY = 40 << 10


async def cut(world: World, random: Random) -> str:
    """Break the connections of one follower to one node, stalled or not."""
    relay = random.choice(world.relays)
    relay.reset()
    if random.random() < 0.5:
        relay.go_on()
    return "a stalled one" if relay.holding else ""


async def cut_all(world: World, random: Random) -> str:
    """Break all connections to a node."""
    node = some_node(world, random)
    for relay in node.relays:
        relay.reset()
    return node.node_id


async def stall(world: World, random: Random) -> str:
    """Let nothing through between one follower and one node."""
    random.choice(world.relays).hold()
    return ""


async def go_on(world: World, random: Random) -> str:
    """Let a relay that stalled go on."""
    relay = _one(world.relays, lambda relay: relay.holding, random)
    if relay is not None:
        relay.go_on()
    return "" if relay else "nothing"


async def stall_until_suspect(world: World, random: Random) -> str:
    """Let nothing through until the follower suspects the node, and then go on or break."""
    following = random.choice(world.residents[0].followings)
    await following.catch_up()
    relay, seen = following.relay, following.auditor.seen
    before = seen["SUSPECT"] + seen["DOWN"]
    relay.hold()
    await store_on(following.node, random)
    await following.reader.until(
        lambda: seen["SUSPECT"] + seen["DOWN"] > before, lambda: "a stall was not noticed"
    )
    assert not following.trusts
    if random.random() < 0.5:
        relay.reset()
    relay.go_on()
    return following.node.node_id


async def stop_reading(world: World, random: Random) -> str:
    """Let a follower stand still."""
    following = random.choice(_present(world))
    following.reader.may_read.clear()
    return following.node.node_id


async def read_on(world: World, random: Random) -> str:
    """Let a follower that stood still go on."""
    following = _one(_present(world), lambda each: not each.reader.may_read.is_set(), random)
    if following is not None:
        following.reader.may_read.set()
    return following.node.node_id if following else "nobody"


async def outrun_a_reader(world: World, random: Random) -> str:
    """Let a follower stand still until it has fallen out of a log."""
    following = random.choice(world.with_small_logs())
    await following.catch_up()
    following.reader.may_read.clear()
    node = following.node
    await flood(node, random, batches=node.life.ring + 1, size=_ON_THE_WAY)
    following.reader.may_read.set()
    return following.node.node_id


async def proxy_stands_still(world: World, random: Random) -> str:
    """Let nobody take from the proxy."""
    world.proxied.reader.may_read.clear()
    return ""


async def proxy_takes(world: World, random: Random) -> str:
    """Let somebody take all that the proxy has, once."""
    if not world.proxied.reader.may_read.is_set():
        world.proxied.take_now()
    return ""


async def proxy_reads_on(world: World, random: Random) -> str:
    """Let somebody read from the proxy."""
    world.proxied.reader.may_read.set()
    return ""


async def proxy_is_abandoned(world: World, random: Random) -> str:
    """Let nobody take from the proxy for so long that it gives up a node's messages.

    The mirror goes on all the same.
    """
    node = random.choice(world.nodes[1:])
    world.proxied.reader.may_read.clear()
    await flood(node, random, batches=100, size=_ON_THE_WAY)
    await world.proxied.settle_mirror()
    world.proxied.reader.may_read.set()
    return node.node_id


async def restart_empty(world: World, random: Random) -> str:
    """Kill a node, and start it with nothing, while others go on."""
    node = some_node(world, random)
    await asyncio.gather(_restart(node, kill=True), _go_on(world, random, without=node))
    return node.node_id


async def restart_full(world: World, random: Random) -> str:
    """Kill a node, start it, and store what it held before most followers are back."""
    node = some_node(world, random)
    contents = node.life.holds[-1]
    await _restart(node, kill=True)
    await node.store_again([*contents])
    return f"{node.node_id} with {len(contents)} blocks"


async def drain(world: World, random: Random) -> str:
    """Stop a node in good order, and start it anew."""
    node = some_node(world, random)
    await _restart(node, kill=False)
    return node.node_id


async def _restart(node: PathNode, *, kill: bool) -> None:
    await node.stop(kill=kill)
    await node.start()


async def _go_on(world: World, random: Random, *, without: PathNode) -> None:
    others = [node for node in world.nodes if node is not without]
    for _ in range(random.randrange(6)):
        await store_on(random.choice(others), random)


def _present(world: World) -> list[Following]:
    return [each for each in world.followings if not each.away]


def _one(among: Sequence[T], that: Callable[[T], object], random: Random) -> T | None:
    chosen = [each for each in among if that(each)]
    return random.choice(chosen) if chosen else None
