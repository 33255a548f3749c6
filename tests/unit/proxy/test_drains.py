"""A proxy that leaves sends its followers off."""

import asyncio

from tests.unit.events.virtual_time import virtual_time

from .origins import Origin
from .world import Reader, World


@virtual_time
async def test_who_comes_while_a_proxy_drains_is_sent_off_like_the_others() -> None:
    """Both are told why, and nobody is followed with any more."""
    world = World(Origin("a"))
    world.upstreams["a"].start_over()
    stays = Reader(world).start()
    await asyncio.sleep(0.1)

    world.service.drain()
    comes = Reader(world).start()
    await asyncio.sleep(0.1)

    assert [each.error and each.error.reason for each in (stays, comes)] == ["DRAINING"] * 2
    assert stays.folds["a"].synced
    assert comes.messages == []
    assert world.service.followers == 0
