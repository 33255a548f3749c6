"""A node that is taken out of an index is gone at once; what is still queued of it does nothing."""

from collections.abc import Iterator

import pytest

from kvtier.client import BlockIndex, BlockKey
from kvtier.v1.event_service_pb2 import WatchEventsResponse
from tests.unit.client.messages import FINGERPRINT, Script, hash_of, removed, stored

QUEUED = 50_000


def key(number: int) -> BlockKey:
    return BlockKey(FINGERPRINT, 0, b"", hash_of(number))


def known(index: BlockIndex, *scripts: Script) -> None:
    """Let an index hold blocks 1 and 2 of nodes."""
    for script in scripts:
        for message in script.start(stored(1, 2)):
            index.apply(message)


def queued(script: Script) -> Iterator[WatchEventsResponse]:
    """What a node had still sent: stores, removals, beats, and states."""
    for number in range(QUEUED):
        if number % 10 == 9:
            yield script.progress()
        elif number % 10 == 5:
            yield script.batch(removed(number - 1))
        else:
            yield script.batch(stored(number))
    yield script.namespace()
    yield script.tier("cpu0")


def nothing_of(index: BlockIndex, node: str) -> bool:
    return (
        index.position(node) is None
        and index.blocks(node, "cpu0") == set()
        and index.count(node, "cpu0") == 0
        and not any(name == node for name, _ in index.locate(key(1)))
    )


def test_queued_events_do_not_bring_a_node_back() -> None:
    """Neither when it is taken out, nor after any of 50 000 messages that were on their way."""
    index, gone, other = BlockIndex(), Script("gone"), Script("other")
    known(index, gone, other)

    index.forget("gone")
    assert nothing_of(index, "gone")
    for number, message in enumerate(queued(gone)):
        index.apply(message)
        if number % 1000 == 0:
            assert nothing_of(index, "gone")

    assert nothing_of(index, "gone")
    assert index.held("gone", FINGERPRINT, 0, b"", [hash_of(n) for n in range(9)]) == [False] * 9
    assert index.blocks("other", "cpu0") == {key(1), key(2)}
    assert index.position("other") is not None


def test_a_node_that_is_welcome_again_comes_back_with_a_reset_of_its_own() -> None:
    """Then it is followed as any other, and holds what it says from then on."""
    index, gone = BlockIndex(), Script("gone")
    known(index, gone)
    index.forget("gone")
    index.apply(gone.batch(stored(7)))

    index.welcome("gone")
    index.apply(gone.batch(stored(8)))
    for message in gone.start(stored(3)):
        index.apply(message)
    index.apply(gone.batch(stored(4)))

    assert index.blocks("gone", "cpu0") == {key(3), key(4)}


@pytest.mark.parametrize("queued_last", ["page", "synced"])
def test_the_rest_of_a_snapshot_does_not_bring_a_node_back(queued_last: str) -> None:
    """A node that is taken out while its snapshot is under way is gone as well."""
    index, gone = BlockIndex(), Script("gone")
    for message in (gone.reset(), gone.namespace(), gone.page(stored(1))):
        index.apply(message)

    index.forget("gone")
    index.apply(gone.page(stored(2)))
    if queued_last == "synced":
        index.apply(gone.synced(2))

    assert nothing_of(index, "gone")
