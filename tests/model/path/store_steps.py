"""Random steps of programs that use the nodes."""

import asyncio
from collections import Counter
from random import Random

from tests.contract.support import BLOCK_BYTES

from .blocks import LONGEST, SPACES, Space, some_chain
from .nodes import SILENT_TIER, TIERS, TOLD_TIERS, PathNode
from .world import World

_Chain = tuple[PathNode, str, Space]
_SLOTS = {tier["name"]: int(str(tier["capacity"])) // BLOCK_BYTES for tier in TIERS}
_TIERS = ("cpu0", "cpu0", "cpu0", "gpu0", "gpu0", SILENT_TIER)


def some_node(world: World, random: Random) -> PathNode:
    """Choose a node."""
    return random.choice(world.nodes)


async def store(world: World, random: Random) -> str:
    """Store a chain, or its end; what was used longest ago makes room."""
    return await store_on(some_node(world, random), random)


async def store_on(node: PathNode, random: Random) -> str:
    """Store a chain, or its end, on a node."""
    tier, space, names = random.choice(_TIERS), random.choice(SPACES), some_chain(random)
    await node.store(tier, space, names)
    return f"{len(names)} blocks of {space.place} in {tier} of {node.node_id}"


async def store_at_once(world: World, random: Random) -> str:
    """Store several chains on all nodes at the same time."""
    drawn = [
        (some_node(world, random), random.choice(TOLD_TIERS), random.choice(SPACES))
        for _ in range(random.randint(2, 6))
    ]
    chains = _with_room(drawn)
    await asyncio.gather(
        *(node.store(tier, space, some_chain(random)) for node, tier, space in chains)
    )
    return f"{len(chains)} chains"


def _with_room(drawn: list[_Chain]) -> list[_Chain]:
    """Leave out what a tier must refuse, when all that comes before is still being written."""
    kept, written = list[_Chain](), Counter[tuple[str, str]]()
    for node, tier, space in drawn:
        written[node.node_id, tier] += LONGEST
        if written[node.node_id, tier] <= _SLOTS[tier]:
            kept.append((node, tier, space))
    return kept


async def store_in_vain(world: World, random: Random) -> str:
    """Reserve room and give it back: only what was evicted is told."""
    node, tier, space = some_node(world, random), random.choice(TOLD_TIERS), random.choice(SPACES)
    await node.store_in_vain(tier, space, some_chain(random))
    return f"in {tier} of {node.node_id}"


async def delete(world: World, random: Random) -> str:
    """Delete the end of a chain, whether or not it is there."""
    return await delete_on(some_node(world, random), random)


async def delete_on(node: PathNode, random: Random) -> str:
    """Delete the end of a chain on a node."""
    space, names = random.choice(SPACES), some_chain(random)[-3:]
    await node.register(space)
    await node.client.delete(space.fingerprint, [space.blocks(names)])
    return f"{len(names)} blocks of {space.place} on {node.node_id}"


async def touch(world: World, random: Random) -> str:
    """Use blocks, so that others are evicted before them."""
    node, space = some_node(world, random), random.choice(SPACES)
    await node.register(space)
    await node.client.touch(space.fingerprint, [space.blocks(some_chain(random))])
    return f"on {node.node_id}"


async def clear_tier(world: World, random: Random) -> str:
    """Clear a tier."""
    node, tier = some_node(world, random), random.choice(_TIERS)
    await node.client.clear(tier)
    return f"{tier} of {node.node_id}"


async def clear_namespace(world: World, random: Random) -> str:
    """Clear one namespace of a tier."""
    return await clear_on(some_node(world, random), random)


async def clear_on(node: PathNode, random: Random) -> str:
    """Clear one namespace of a tier of a node."""
    tier, space = random.choice(TOLD_TIERS), random.choice(SPACES)
    await node.register(space)
    await node.client.clear(tier, space.fingerprint)
    return f"{space.place} in {tier} of {node.node_id}"


async def delete_namespace(world: World, random: Random) -> str:
    """Delete a namespace; the next step that uses it registers it again."""
    return await delete_namespace_on(some_node(world, random), random)


async def delete_namespace_on(node: PathNode, random: Random) -> str:
    """Delete a namespace on a node."""
    space = random.choice(SPACES)
    await node.delete_namespace(space)
    return f"{space.place} on {node.node_id}"


async def flood(node: PathNode, random: Random, *, batches: int, size: int = 0) -> None:
    """Change a node until its log got so many more batches, and so many more bytes."""
    life = node.life
    batches, size = life.head + batches, life.bytes + size
    # Where the events are largest.
    space = max(SPACES, key=lambda space: len(space.adapter))
    while life.head < batches or life.bytes < size:
        await node.store("gpu0", space, some_chain(random, whole=True))
        gone = space.blocks(some_chain(random, whole=True))
        await node.client.delete(space.fingerprint, [gone], tiers=["gpu0"])
