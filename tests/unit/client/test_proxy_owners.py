"""Who speaks for a node, when nodes move from one address to another."""

from kvtier.client import Quality, TieringProxy

from .indexing import keys
from .messages import Script, stored
from .proxying import DOWN, LIVE, real, serving, settle, state_told, states, synced, until


def _is_exact(proxy: TieringProxy, node_id: str, epoch: int) -> bool:
    position = proxy.index.position(node_id)
    exact = proxy.index.quality(node_id) is Quality.EXACT
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
        assert sorted(proxy.index.nodes()) == ["one", "p"]
        assert proxy.index.blocks("one", "cpu0") == keys(3)
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

        assert proxy.index.blocks("one", "cpu0") == keys(1)
        assert proxy.index.blocks("two", "cpu0") == keys(2)
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
        assert proxy.index.blocks("one", "cpu0") == keys(3, 4)


async def test_what_waits_of_a_node_that_moved_does_not_come_after_its_new_start() -> None:
    """A reader that was slow gets the reset, and nothing of the old life behind it."""
    async with serving("p", "two", "one") as (proxy, (primary, new, old)):
        await synced(proxy, (primary, new, old), [], [2], [1])
        old.say(*(old.script.batch(stored(number)) for number in range(10, 20)))
        await settle(lambda: proxy.index.count("one", "cpu0") == 11)
        old.fall_over()
        new.fall_over()
        await settle(lambda: proxy.members.secondaries[1].down)
        new.script = Script("one", epoch=9)
        new.say(*new.script.start(stored(3)))
        await settle(lambda: _is_exact(proxy, "one", 9))

        found = await state_told(proxy, "one", LIVE)

    kinds = [each.WhichOneof("kind") for each in real(found) if each.node_id == "one"]
    assert kinds == ["reset", "namespace", "snapshot", "synced"]


async def test_the_primary_speaks_for_its_node_whoever_else_says_its_id() -> None:
    """Also when a secondary, such as the same node by another address, was faster."""
    async with serving("p", "same") as (proxy, (primary, same)):
        same.script = Script("p")
        same.say(*same.script.start(stored(1)))
        await state_told(proxy, "p", LIVE)
        primary.say(*primary.script.start(stored(1)))
        await settle(lambda: proxy.members.primary.node_ids == ["p"])
        same.say(same.script.batch(stored(2)))
        await settle(lambda: "give each node an id of its own" in proxy.sources[1].reason)
        await settle(lambda: _is_exact(proxy, "p", 7))
        assert proxy.index.blocks("p", "cpu0") == keys(1)

        primary.fall_over()
        await settle(lambda: proxy.members.primary.down)
        asked = len(same.followers)
        same.say(same.script.progress())
        await settle(lambda: len(same.followers) > asked)
        same.say(*same.script.start(stored(1, 2)))
        await settle(lambda: proxy.index.blocks("p", "cpu0") == keys(1, 2))
        again = len(primary.followers)
        primary.say(primary.script.synced(1))
        await settle(lambda: len(primary.followers) > again)
        primary.say(*primary.script.start(stored(1, 2, 3)))
        await settle(lambda: proxy.index.blocks("p", "cpu0") == keys(1, 2, 3))

        assert proxy.members.primary.node_ids == ["p"]
        assert proxy.members.secondaries[0].node_ids == []
