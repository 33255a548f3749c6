"""Followers can read every event of a namespace that was deleted, and know it when it is back."""

import asyncio

from .fakes import MAX_DELETED, FakeNode, block, space_of
from .fold import Fold
from .reader import Reader, serve
from .virtual_time import virtual_time

MANY = 20


def described(reader: Reader) -> list[int]:
    """The numbers of the namespaces that a follower was told of, in order."""
    told = [m.namespace for m in reader.messages if m.HasField("namespace")]
    return [int(each.name.removeprefix("space-")) for each in told]


@virtual_time
async def test_a_slow_follower_learns_what_came_and_went_while_it_read() -> None:
    """The description comes before the events, though the namespace is long gone."""
    node = FakeNode(namespaces=[1])
    reader = Reader(serve(node)).start()
    await reader.until("synced", 0.1)
    reader.delay = 1.0

    node.store(block(1))
    await asyncio.sleep(0)
    node.register(3)
    node.store(block(2, namespace=3))
    node.forget(3)
    node.store(block(4))
    await asyncio.sleep(60)

    assert described(reader) == [1, 3]
    assert reader.fold.view == node.contents()
    assert reader.fold.reasons == ["NO_POSITION"]


@virtual_time
async def test_a_namespace_that_is_back_is_told_again() -> None:
    """Each registration is told once, before the events that come after it."""
    node = FakeNode(namespaces=[1])
    reader = Reader(serve(node)).start()
    await asyncio.sleep(1)
    for _ in range(3):
        node.register(2)
        node.store(block(2, namespace=2))
        await asyncio.sleep(1)
        node.forget(2)
        await asyncio.sleep(1)

    assert described(reader) == [1, 2, 2, 2]
    assert reader.fold.view == node.contents()


async def follower_of_now(node: FakeNode) -> Fold:
    """The view of a follower that came, read everything, and left."""
    reader = Reader(serve(node)).start()
    await reader.until("synced", 0.1)
    await reader.leave()
    return reader.fold


@virtual_time
async def test_a_resume_is_told_what_comes_after_its_position() -> None:
    """A deleted namespace is told as long as a batch behind the position names it."""
    node = FakeNode(namespaces=[1, 2])
    folds = [await follower_of_now(node)]
    node.store(block(2, namespace=2))
    folds.append(await follower_of_now(node))
    node.forget(2)
    folds.append(await follower_of_now(node))
    node.store(block(1))

    told = []
    for fold in folds:
        reader = Reader(serve(node), fold=fold).start()
        await asyncio.sleep(1)
        told.append(sorted(described(reader)))

    assert told == [[1, 2], [1, 2], [1]]
    assert all(fold.reasons == ["NO_POSITION"] for fold in folds)
    assert all(fold.view == node.contents() for fold in folds)


@virtual_time
async def test_deleted_namespaces_pile_up_nowhere() -> None:
    """Many of them cost followers some of the log, which tells them so, and no view is wrong."""
    node = FakeNode(namespaces=[1])
    node.store(block(1))
    fold = await follower_of_now(node)
    for number in range(2, MANY):
        node.register(number)
        node.store(block(2, namespace=number))
        node.forget(number)
    node.store(block(4))

    behind = Reader(serve(node), fold=fold).start()
    fresh = Reader(serve(node)).start()
    await asyncio.sleep(1)

    assert len(node.namespaces(0, 0).described) == 1 + MAX_DELETED
    assert behind.fold.reasons == ["NO_POSITION", "COMPACTED"]
    assert behind.fold.view == fresh.fold.view == node.contents()
    assert described(fresh) == [1]


@virtual_time
async def test_a_namespace_without_events_costs_no_log() -> None:
    """Registering and deleting one that nothing was stored of leaves the log as it is."""
    node = FakeNode(namespaces=[1])
    node.store(block(1))
    for number in range(2, MANY):
        node.register(number)
        node.forget(number)

    assert node.log.oldest == 0
    assert [fingerprint for fingerprint, _ in node.namespaces(0, 0).described] == [space_of(1)]


@virtual_time
async def test_a_namespace_is_forgotten_with_the_last_batch_that_names_it() -> None:
    """Once the log has let go of it, nothing of a deleted namespace is left."""
    node = FakeNode(namespaces=[1, 2], max_batches=2)
    node.store(block(2, namespace=2))
    node.forget(2)
    kept = len(node.namespaces(0, 0).described)
    for number in range(3, 5):
        node.store(block(number))
    node.register(3)
    node.forget(3)

    assert (kept, len(node.namespaces(0, 0).described)) == (2, 1)
    assert node.log.last_named(space_of(2)) == 0
