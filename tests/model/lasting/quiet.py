"""What must hold of a node with lasting tiers when nothing goes on."""

from collections import defaultdict

from kvtier.client.errors import ExhaustedError
from kvtier.server.tiers.table import FREE
from kvtier.server.tiers.tier import Tier
from kvtier.v1.block_pb2 import RemovalReason
from kvtier.v1.result_pb2 import ReadResult
from tests.contract.folding import listed
from tests.contract.follower import Follower
from tests.model.check_tables import check_node

from .blocks import EVERY_KEY, Key, chain_to, set_of
from .world import World

_BAD = {
    ReadResult.READ_RESULT_MISS: RemovalReason.REMOVAL_REASON_LOST,
    ReadResult.READ_RESULT_CORRUPT: RemovalReason.REMOVAL_REASON_CORRUPT,
}


async def check_quiet(world: World) -> None:
    """Let all go quiet, and check the node, its followers and its shelves against each other."""
    await _settle(world)
    for tier in world.server.node.tiers:
        await _read_all(world, tier)
    await _settle(world)
    await _check_views(world)
    tiers = world.server.node.tiers
    await world.until(lambda: not any(t.occupancy.copying for t in tiers), "no check is on")
    check_node(world.server.node)
    for tier in world.lasting:
        _check_shelf(world, tier)
    world.harmed.clear()
    world.truth.unsettled.clear()


async def _settle(world: World) -> None:
    """Let troubles pass, leases end and copies be done."""
    node, ground = world.server.node, world.ground
    ground.calm()
    await world.recovered()
    await world.until(lambda: all(tier.accepts for tier in node.tiers), "every tier is ready")
    await world.until(lambda: not node.tiering.jobs, "copies end")
    world.clock.advance(400)
    node.expire_leases()
    await world.until(lambda: not node.transfers, "transfers end")
    await world.until(
        lambda: not any(t.occupancy.quarantined + t.occupancy.draining for t in node.tiers),
        "no slot is held",
    )
    world.clock.advance(400)
    node.expire_leases()
    for tier in world.lasting:
        assert tier.keeping is not None
        await tier.keeping.store.flush()
    await world.until(
        lambda: not node.write_bytes.used + node.read_bytes.used, "transfers give memory back"
    )
    world.check_at_any_time()


async def _read_all(world: World, tier: Tier) -> None:
    """Load every block that a tier shows; one that was harmed leaves it, and can come again."""
    world.check_at_any_time()
    for key in sorted(world.view.blocks[tier.name]):
        data, result = await _read(world, tier, key)
        world.check_at_any_time()
        if data is not None:
            world.truth.check(key, world.truth.version(key), data)
        elif key in world.view.blocks[tier.name]:
            raise AssertionError(f"{tier.name} shows a block: {ReadResult.Name(result)}")
        elif world.view.why[tier.name, key] == _BAD.get(result):
            assert key in world.harmed[tier.name], f"{tier.name}: {ReadResult.Name(result)}"
            await _store_again(world, tier, key)


async def _read(world: World, tier: Tier, key: Key) -> tuple[bytes | None, ReadResult.ValueType]:
    """Load a block, again where a slow machine is taken for a shelf that fails."""
    for _ in range(5):
        report = await world.client.load(tier.name, key.namespace, [set_of([key])])
        (data,), (result,) = report.payloads, report.results
        if result != ReadResult.READ_RESULT_FAILED:
            break
        await world.until(lambda: tier.accepts, "a tier is ready")
    return data, result


async def _store_again(world: World, tier: Tier, key: Key) -> None:
    chain = chain_to(key)
    payloads = [world.truth.payload(each) for each in chain.keys]
    world.truth.offered.update(chain.keys)
    try:
        await world.client.store(tier.name, key.namespace, [chain.run()], payloads)
    except ExhaustedError:
        # The chain spares its own blocks, and a small tier may have no others.
        return
    world.check_at_any_time()
    assert key in world.view.blocks[tier.name], "a block that was lost can be stored again"
    report = await world.client.load(tier.name, key.namespace, [chain.set()])
    assert report.payloads[-1] == payloads[-1]


async def _check_views(world: World) -> None:
    """Check that the log, a new follower and the listing say the same."""
    world.check_at_any_time()
    listing: dict[str, set[Key]] = defaultdict(set)
    found = await listed(world.client)
    for each in found:
        listing[each.tier].add(Key(*each[1:]))
    assert {name: keys for name, keys in world.view.blocks.items() if keys} == listing
    async with Follower(world.client) as follower:
        assert follower.fold.view == found
    assert set().union(*listing.values()) <= set(EVERY_KEY)


def _check_shelf(world: World, tier: Tier) -> None:
    """Check that what a tier shows is on its shelf, and nothing else."""
    keeping = tier.keeping
    assert keeping is not None
    in_use = [slot for slot, state in enumerate(tier.table.state) if state != FREE]
    known = {each.name for each in keeping._records(in_use, [0] * len(in_use))}
    there = world.ground.names(tier.name)
    assert known <= there
    extra = there - known - set(keeping.strangers)
    assert not extra or world.ground.may_have_more(), f"{tier.name}: {extra} are left behind"
