"""A follower is told each batch once, from the ring or from its node, however these race."""

import asyncio

from tests.contract.folding import Facts, Fold, Key
from tests.unit.client.messages import FINGERPRINT, hash_of
from tests.unit.events.virtual_time import virtual_time

from .origins import DOWN, LIVE, Origin
from .world import Reader, World

A_WHILE = 20.0


NO_FACTS = Facts(b"", 0, "")


def held(*numbers: int) -> list[Key]:
    """What a view of blocks in the host tier names them."""
    return [Key("cpu0", FINGERPRINT, 0, b"", hash_of(number)) for number in numbers]


def world_of(*origins: Origin, **options: int) -> World:
    """A proxy that is in sync with origins which hold ten blocks each."""
    world = World(*origins, **options)
    for origin in origins:
        for number in range(10):
            origin.store(number)
        world.upstreams[origin.node_id].start_over()
    return world


async def joined(world: World, folds: dict[str, Fold] | None = None) -> Reader:
    reader = Reader(world, folds).start()
    await asyncio.sleep(0.1)
    return reader


@virtual_time
async def test_a_fresh_follower_is_handed_over_to_the_ring() -> None:
    """The snapshot is the node's own; then its stream ends, and the ring goes on."""
    origin = Origin("a")
    world = world_of(origin)

    reader = await joined(world)
    origin.store(100)
    world.upstreams["a"].hear()
    await asyncio.sleep(0.1)

    assert origin.opened == [None]
    assert world.source.open_streams == 0
    assert reader.agrees(origin)
    assert reader.folds["a"].resets == ["NO_POSITION"]
    await reader.leave()


@virtual_time
async def test_a_position_that_the_ring_holds_needs_no_stream() -> None:
    """It is confirmed with the number of blocks of then, and the node is not asked."""
    origin = Origin("a")
    world = world_of(origin)
    folds: dict[str, Fold] = {}
    await (await joined(world, folds)).leave()
    origin.opened.clear()
    origin.remove(3)
    origin.clear()
    origin.store(50, 51)
    world.upstreams["a"].hear()

    reader = await joined(world, folds)

    assert origin.opened == []
    assert reader.agrees(origin)
    assert reader.kinds("a").count("synced") == 1
    await reader.leave()


@virtual_time
async def test_a_position_whose_blocks_nobody_counted_is_the_nodes_to_confirm() -> None:
    """The proxy counts from where its index was; what lies before that it does not know."""
    origin = Origin("a")
    world = world_of(origin)
    folds: dict[str, Fold] = {}
    await (await joined(world, folds)).leave()
    origin.begin(epoch=8)
    origin.store(1, 2)
    world.upstreams["a"].read_snapshot()
    early = {"a": Fold()}
    early["a"].node_id, early["a"].epoch, early["a"].through = "a", 8, 1
    early["a"].view, early["a"].synced = dict.fromkeys(held(1, 2), NO_FACTS), True
    origin.clear()
    origin.store(3)
    world.upstreams["a"].read()
    world.upstreams["a"].stand(LIVE)

    reader = await joined(world, early)

    assert [position and position.sequence for position in origin.opened[-1:]] == [1]
    assert reader.agrees(origin)
    assert reader.folds["a"].resets == []
    await reader.leave()


@virtual_time
async def test_a_follower_ahead_of_the_ring_waits_for_it() -> None:
    """Its own stream is ahead: the ring takes over where it comes to the same place."""
    origin = Origin("a")
    world = world_of(origin)
    for number in range(10, 20):
        origin.store(number)

    reader = await joined(world)
    before = reader.sequences("a")
    world.upstreams["a"].hear()
    await asyncio.sleep(0.1)
    origin.store(20)
    world.upstreams["a"].hear()
    await asyncio.sleep(0.1)

    assert before == []
    assert world.source.open_streams == 0
    assert reader.sequences("a") == [21]
    assert reader.agrees(origin)
    await reader.leave()


@virtual_time
async def test_a_ring_that_stays_behind_delays_a_follower_by_little() -> None:
    """The follower goes on from its own stream, and is handed over when the ring is there."""
    origin = Origin("a")
    world = world_of(origin)
    origin.store(10)
    reader = await joined(world)

    for number in range(11, 20):
        origin.store(number)
        await asyncio.sleep(1.0)
    behind = reader.agrees(origin)
    world.upstreams["a"].hear()
    origin.store(20)
    world.upstreams["a"].hear()
    await asyncio.sleep(6.0)
    origin.store(21)
    world.upstreams["a"].hear()
    await asyncio.sleep(6.0)

    assert behind
    assert world.source.open_streams == 0
    assert reader.agrees(origin)
    assert reader.sequences("a") == list(range(12, 23))
    await reader.leave()


@virtual_time
async def test_a_follower_that_lags_out_of_the_ring_goes_on_from_its_node() -> None:
    """The node's log is longer than the ring: there is no gap, and no second synced."""
    origin = Origin("a")
    world = world_of(origin, max_batches=4)
    reader = await joined(world)

    reader.stall()
    for number in range(10, 30):
        origin.store(number)
        world.upstreams["a"].hear()
    await asyncio.sleep(1.0)
    reader.read_on()
    await asyncio.sleep(1.0)

    assert reader.agrees(origin)
    assert reader.sequences("a") == list(range(11, 31))
    assert reader.kinds("a").count("synced") == 1
    assert world.source.open_streams == 0
    await reader.leave()


@virtual_time
async def test_a_node_that_starts_anew_is_told_anew() -> None:
    """From the ring of the old life, by way of the node, to the ring of the new one."""
    origin = Origin("a")
    world = world_of(origin)
    reader = await joined(world)

    origin.begin(epoch=8)
    world.upstreams["a"].stand(DOWN)
    await asyncio.sleep(0.1)
    origin.store(77)
    world.upstreams["a"].start_over()
    await asyncio.sleep(A_WHILE)

    assert reader.agrees(origin)
    assert reader.folds["a"].resets == ["NO_POSITION", "EPOCH_CHANGED"]
    assert reader.states("a") == ["DOWN"]
    assert world.source.open_streams == 0
    await reader.leave()


@virtual_time
async def test_the_state_of_a_node_is_told_when_it_changes_and_after_synced() -> None:
    """Who resumes from the ring of a node that is away is in sync, and told that it is away."""
    origin = Origin("a")
    world = world_of(origin)
    folds: dict[str, Fold] = {}
    stays = await joined(world)
    await (await joined(world, folds)).leave()
    world.upstreams["a"].stand(DOWN)

    back = await joined(world, folds)
    fresh = await joined(world)
    beats = back.kinds("a").count("progress")
    await asyncio.sleep(A_WHILE)

    assert stays.states("a") == ["DOWN"]
    assert back.kinds("a")[-1] == "state"
    assert back.states("a")[-1] == "DOWN"
    assert fresh.kinds("a") == ["state"]
    assert back.kinds("a").count("progress") == beats
    world.upstreams["a"].stand(LIVE)
    await asyncio.sleep(A_WHILE)
    assert [reader.states("a")[-1] for reader in (stays, back)] == ["LIVE", "LIVE"]
    assert fresh.agrees(origin)
    for reader in (stays, back, fresh):
        await reader.leave()


@virtual_time
async def test_streams_of_one_node_are_few_and_all_followers_get_there() -> None:
    """Eight followers at once have two streams at a time, and end up in the ring."""
    origin = Origin("a")
    world = world_of(origin)
    most = 0

    readers = [Reader(world).start() for _ in range(8)]
    for _ in range(500):
        await asyncio.sleep(0)
        most = max(most, world.source.open_streams)
    await asyncio.sleep(A_WHILE)

    assert most == 2
    assert all(reader.agrees(origin) for reader in readers)
    for reader in readers:
        await reader.leave()


@virtual_time
async def test_a_node_that_cannot_be_followed_holds_up_no_other() -> None:
    """Its streams are tried again and again meanwhile, with pauses."""
    near, far = Origin("near"), Origin("far")
    world = world_of(near, far)
    far.reachable = False
    reader = await joined(world)
    near.store(100)
    world.upstreams["near"].hear()
    await asyncio.sleep(A_WHILE)
    tries, agreed = len(far.opened), reader.agrees(near)

    far.reachable = True
    await asyncio.sleep(A_WHILE)

    assert agreed
    assert 5 < tries < 100
    assert reader.agrees(far)
    await reader.leave()


@virtual_time
async def test_events_that_make_no_sense_end_the_ring_and_nothing_else() -> None:
    """The follower hears from the node itself until the proxy's own stream starts over."""
    origin = Origin("a")
    world = world_of(origin)
    reader = await joined(world)

    bad = origin.log[0].__class__()
    bad.CopyFrom(origin.log[-1])
    bad.after, bad.through = origin.head, origin.head + 1
    bad.batches.batches[0].sequence = origin.head + 1
    bad.batches.batches[0].stored[0].tier = "nowhere"
    world.relays.take(bad)
    origin.store(100)
    await asyncio.sleep(A_WHILE)
    direct = reader.agrees(origin), world.source.open_streams
    world.upstreams["a"].start_over()
    origin.store(101)
    world.upstreams["a"].hear()
    await asyncio.sleep(A_WHILE)

    assert direct == (True, 1)
    assert reader.agrees(origin)
    assert world.source.open_streams == 0
    await reader.leave()
