"""Who speaks for a node, when nodes move from one address to another."""

from kvtier.client import Quality, TieringProxy

from .indexing import keys
from .messages import Script, stored
from .proxying import DOWN, LIVE, real, serving, settle, state_told, states, synced, until


def _is_exact(proxy: TieringProxy, node_id: str, epoch: int) -> bool:
    position = proxy.mirror.position(node_id)
    exact = proxy.mirror.quality(node_id) is Quality.EXACT
    return exact and position is not None and position.epoch == epoch


async def test_a_node_that_moved_to_another_address_is_taken_from_there() -> None:
    """Once it is down where it was, whoever says its id speaks for it, from a reset on."""
    async with serving("p", "one", "two") as (proxy, (primary, old, new)):
        await synced(proxy, (primary, old, new), [], [1], [2])
        old.fall_over()
        await state_told(proxy, "one", DOWN)

        new.fall_over()
        new.script = Script("one", epoch=9)
        new.say(*new.script.start(stored(3)))
        found = await state_told(proxy, "one", LIVE)

        kinds = [each.WhichOneof("kind") for each in real(found) if each.node_id == "one"]
        assert kinds == ["reset", "namespace", "snapshot", "synced"]
        assert proxy.mirror.nodes() == ["one"]
        assert proxy.mirror.blocks("one", "cpu0") == keys(3)
        assert [source.node_id for source in proxy.sources] == ["p", "", "one"]


async def test_two_nodes_that_swapped_addresses_are_both_followed() -> None:
    """However their streams break and come back, neither is refused for good."""
    async with serving("p", "one", "two") as (proxy, (primary, first, second)):
        await synced(proxy, (primary, first, second), [], [1], [2])

        for source in (first, second):
            source.fall_over()
        first.script, second.script = Script("two", epoch=8), Script("one", epoch=9)
        first.say(*first.script.start(stored(2)))
        second.say(*second.script.start(stored(1)))
        for source in (first, second):
            # A node that was refused says everything again, when it is asked to start over.
            source.say(*source.script.start(stored(2 if source is first else 1)))
        epochs = {"one": 9, "two": 8}
        for name, epoch in epochs.items():
            await settle(lambda: _is_exact(proxy, name, epoch))  # noqa: B023

        assert proxy.mirror.blocks("one", "cpu0") == keys(1)
        assert proxy.mirror.blocks("two", "cpu0") == keys(2)
        assert [source.node_id for source in proxy.sources] == ["p", "two", "one"]


async def test_who_was_refused_starts_over_when_the_other_is_gone() -> None:
    """What it said meanwhile went to nobody, so the next that is heard of it is a reset."""
    async with serving("p", "one", "two") as (proxy, (primary, first, second)):
        await synced(proxy, (primary, first, second), [], [1], [2])
        second.fall_over()
        second.script = Script("one", epoch=9)
        second.say(*second.script.start(stored(3)))
        await until(proxy, lambda found: states(found).count(("two", DOWN)) >= 1)
        await settle(lambda: "give each node an id of its own" in proxy.sources[2].reason)
        asked = len(second.followers)

        first.fall_over()
        await state_told(proxy, "one", DOWN)
        second.say(second.script.batch(stored(4)))
        await settle(lambda: len(second.followers) > asked)
        second.say(*second.script.start(stored(3, 4)))
        found = await state_told(proxy, "one", LIVE)

        kinds = [each.WhichOneof("kind") for each in real(found) if each.node_id == "one"]
        assert kinds == ["reset", "namespace", "snapshot", "synced"]
        assert proxy.mirror.blocks("one", "cpu0") == keys(3, 4)
