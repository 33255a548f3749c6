"""What a proxy makes of what it hears of nodes."""

from kvtier.client.stream import source_state
from tests.unit.events.virtual_time import virtual_time

from .origins import Origin
from .world import World

STATE_OF_A_LATER_VERSION = 99


@virtual_time
async def test_a_state_that_is_not_known_is_a_state() -> None:
    """A node, or a proxy, of a later version says it; its events go on to count."""
    origin = Origin("a")
    world = World(origin)
    origin.store(1)
    world.upstreams["a"].start_over()

    world.relays.take(source_state("a", (7, 1), STATE_OF_A_LATER_VERSION, "later"))  # type: ignore[arg-type]
    origin.store(2)
    world.upstreams["a"].hear()

    ring = world.relay("a").ring
    assert world.relay("a").state == STATE_OF_A_LATER_VERSION
    assert ring is not None
    assert ring.head == origin.position
