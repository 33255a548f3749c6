"""Random steps of a world."""

from collections import Counter

from kvtier.wire.errors import KvtierError, Reason
from kvtier.wire.namespaces import fingerprint

from .blocks import NAMESPACES
from .quiet import check_quiet
from .world import World

_STEPS = {
    "go on": 8,
    "trouble": 4,
    "harm": 2,
    "crash": 2,
    "restart": 1,
    "quiet": 2,
    "expire": 1,
    "forget": 1,
}


async def walk(world: World, steps: int) -> Counter[str]:
    """Take random steps, and end in quiet; return what happened, and how often."""
    seen = Counter[str]()
    await world.start()
    try:
        for _ in range(steps):
            step = world.rng.choices(list(_STEPS), list(_STEPS.values()))[0]
            seen[step] += 1
            await _STEPS_DO[step](world)
            for caller in world.callers:
                seen += caller.done + caller.odd
                caller.done.clear()
                caller.odd.clear()
            while world.ground.crashed:
                await _next_life(world)
        await check_quiet(world)
        # What was given up may have come to lie there; a life without trouble puts that right.
        await world.end()
        await world.start()
        await check_quiet(world)
    finally:
        world.ground.calm()
        world.server.hurry()
        await world.client.close()
        await world.server.drain_and_stop()
    return seen


async def _go_on(world: World) -> None:
    await world.act()


async def _trouble(world: World) -> None:
    for _ in range(world.rng.choice([1, 1, 2, 3])):
        _begin_trouble(world)
        await world.act(2)
    world.ground.calm()
    if world.rng.random() < 0.5:
        await world.act(1)


def _begin_trouble(world: World) -> None:
    troubles = world.ground.troubles
    world.ground.trouble(world.rng.choices(list(troubles), list(troubles.values()))[0])


async def _harm(world: World) -> None:
    world.harm()
    await world.act(2)


async def _crash(world: World) -> None:
    if world.rng.random() < 0.2:
        _begin_trouble(world)
    world.ground.crash(world.rng.randrange(1, 80))
    await world.act(2)
    world.ground.crash(0)


async def _next_life(world: World) -> None:
    again = world.rng.random() < 0.2
    await _restart_with(world, crash_after=world.rng.randrange(1, 60) if again else 0)


async def _restart(world: World) -> None:
    await _restart_with(world)


async def _restart_with(world: World, crash_after: int = 0) -> None:
    shrink = world.rng.choice([0, 0, 0, 3])
    await world.end(larger=not shrink)
    await world.start(crash_after=crash_after, shrink=shrink)
    if crash_after or world.rng.random() < 0.7:
        await world.recovered()
    if crash_after:
        world.ground.crash(0)


async def _quiet(world: World) -> None:
    await check_quiet(world)


async def _expire(world: World) -> None:
    world.clock.advance(world.rng.choice([10, 400]))
    await world.act(1)


async def _forget(world: World) -> None:
    """Delete a namespace, which nobody else is at."""
    namespace = fingerprint(world.rng.choice(NAMESPACES))
    try:
        await world.client.delete_namespace(namespace, force=world.rng.random() < 0.7)
    except KvtierError as error:
        fine = {
            Reason.NAMESPACE_UNKNOWN,
            Reason.BLOCKS_LEASED,
            Reason.TIER_READ_ONLY,
            Reason.TIER_RECOVERING,
        }
        if error.reason not in fine:
            raise
    else:
        world.truth.gone_with(namespace)
    world.check_at_any_time()


_STEPS_DO = {
    "go on": _go_on,
    "trouble": _trouble,
    "harm": _harm,
    "crash": _crash,
    "restart": _restart,
    "quiet": _quiet,
    "expire": _expire,
    "forget": _forget,
}
