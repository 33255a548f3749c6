"""A feed joins batches into messages, once for all followers who ask for the same."""

from typing import Any

import pytest

from kvtier.server.events.feed import Delivery, Feed
from kvtier.server.events.filter import EventFilter
from kvtier.server.events.log import Entry, Lagged
from kvtier.server.events.messages import Messages
from kvtier.v1.event_service_pb2 import WatchEventsResponse

from .fakes import EPOCH, FakeNode, block, space_of


def _feed(node: FakeNode, message_bytes: int = 1 << 18, **wanted: Any) -> Feed:
    messages = Messages(node.node_id, EPOCH)
    return Feed(node.log, messages, EventFilter(**wanted), message_bytes)


def _sequences(delivery: Delivery) -> list[int]:
    assert delivery.message is not None
    response = WatchEventsResponse.FromString(delivery.message)
    assert response.through == delivery.through
    return [batch.sequence for batch in response.batches.batches]


def test_a_message_is_a_join_of_what_the_log_holds() -> None:
    """The batches lie in the message with the very bytes that the log keeps."""
    node = FakeNode()
    for number in range(5):
        node.store(block(number))

    delivery = _feed(node).read(1, 1, 4)

    assert _sequences(delivery) == [2, 3, 4]
    assert b"".join(e.basic for e in node.log.read(1, 4)) in (delivery.message or b"")


def test_followers_at_one_position_share_one_message() -> None:
    """The second reader of a stretch gets the same object; another stretch gets its own."""
    node = FakeNode()
    node.store(block(1))
    node.store(block(2))
    feed = _feed(node)

    one, other, later = feed.read(0, 0, 2), feed.read(0, 0, 2), feed.read(1, 1, 2)

    assert one.message is other.message
    assert _sequences(later) == [2]


def test_a_message_costs_what_it_carries_however_long_the_backlog_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A follower that is far behind does not have all that it lacks read for each message."""
    node = FakeNode()
    for number in range(1000):
        node.store(block(number))
    read, counts = node.log.read, []

    def counted(after: int, through: int) -> list[Entry]:
        entries = read(after, through)
        counts.append(len(entries))
        return entries

    monkeypatch.setattr(node.log, "read", counted)
    delivery = _feed(node, message_bytes=1).read(0, 0, 1000)

    assert _sequences(delivery) == [1]
    assert sum(counts) < 100


def test_a_message_is_full_at_its_size_and_a_large_batch_goes_alone() -> None:
    """Batches are cut between messages, and each message accounts for exactly its own."""
    node = FakeNode()
    for numbers in ([1], [2], range(10, 60), [4], [5]):
        node.store(*[block(n) for n in numbers])
    sizes = [len(entry.basic) for entry in node.log.read(0, 5)]
    feed = _feed(node, message_bytes=sizes[0] + sizes[1])

    messages, cursor = [], 0
    while cursor < node.log.head:
        delivery = feed.read(cursor, cursor, node.log.head)
        messages.append(_sequences(delivery))
        cursor = delivery.through

    assert sizes[2] > sizes[0] + sizes[1]
    assert messages == [[1, 2], [3], [4, 5]]


def test_what_does_not_pass_is_accounted_for_with_what_does() -> None:
    """A message covers the filtered batches around its own; only filtered ones make none."""
    node = FakeNode()
    for number, namespace in enumerate([2, 1, 2, 2]):
        node.store(block(number, namespace=namespace))
    feed = _feed(node, namespaces=frozenset({space_of(1)}))

    around = feed.read(0, 0, 3)
    nothing = feed.read(3, 3, 4)

    assert _sequences(around) == [2]
    assert around.through == 3
    assert nothing == Delivery(None, 4)


def test_one_read_never_walks_the_whole_of_a_long_log() -> None:
    """A filter that nothing passes is given back the loop before the end of a long stretch."""
    node = FakeNode(max_batches=20_000)
    for number in range(10_000):
        node.clear(space_of(2 + number % 2))
    feed = _feed(node, namespaces=frozenset({space_of(1)}))

    delivery = feed.read(0, 0, node.log.head)

    assert delivery.message is None
    assert 0 < delivery.through <= 5_000


def test_a_stretch_that_the_log_has_forgotten_is_lagged() -> None:
    """Reading before the oldest position raises instead of skipping."""
    node = FakeNode(max_batches=2)
    for number in range(5):
        node.store(block(number))

    with pytest.raises(Lagged):
        _feed(node).read(2, 2, 5)
