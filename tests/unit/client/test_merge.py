"""Merging the streams of several sources."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from kvtier.client.proxy.following.merge import Delivery, Merge, SourceBuffer
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import (
    NodePosition,
    Progress,
    Reset,
    SourceState,
    State,
    WatchEventsResponse,
)

from .patience import patiently

LIVE, DOWN = SourceState.SOURCE_STATE_LIVE, SourceState.SOURCE_STATE_DOWN
_step = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 2), st.integers(1, 5)),
    st.tuples(st.just("take"), st.just(0), st.just(0)),
    st.tuples(st.just("round"), st.just(0), st.integers(0, 20)),
)


def _delivery(node_id: str, through: int = 0) -> Delivery:
    message = WatchEventsResponse(node_id=node_id, through=through, progress=Progress())
    return Delivery(message, Position(epoch=1, sequence=through), 1)


def _told(node_id: str, state: SourceState.ValueType) -> Delivery:
    message = WatchEventsResponse(node_id=node_id, state=State(source=state))
    return Delivery(message, None, 1)


def _buffers(*contents: str) -> list[SourceBuffer]:
    """Return buffers with a message for each letter."""
    buffers = [SourceBuffer(100) for _ in contents]
    for buffer, content in zip(buffers, contents, strict=True):
        for letter in content:
            buffer.put(_delivery(letter))
    return buffers


def _letters(messages: Iterable[WatchEventsResponse]) -> str:
    return "".join(message.node_id for message in messages)


def test_all_of_the_primary_comes_first_then_each_secondary_in_order() -> None:
    """Taking everything leaves nothing, whoever delivered when."""
    merge = Merge(_buffers("ab", "uvw", "xyz"), quota=1)

    assert merge.ready
    assert _letters(merge.all()) == "abuvwxyz"
    assert not merge.ready


def test_a_round_is_all_of_the_primary_and_a_quota_of_each_secondary() -> None:
    """A chatty secondary waits for the next round, and the others do not wait for it."""
    merge = Merge(_buffers("abc", "uvwxyz", "12"), quota=2)

    rounds = [_letters(merge.round()) for _ in range(3)]

    assert rounds == ["abcuv12", "wx", "yz"]


def test_a_primary_that_never_stops_does_not_starve_the_secondaries() -> None:
    """What the primary delivers during a round belongs to the next one."""
    primary, _ = buffers = _buffers("ab", "xy")
    seen = ""

    for message in Merge(buffers, quota=1).round():
        seen += message.node_id
        primary.put(_delivery("p"))

    assert seen == "abx"


def test_a_round_that_is_given_up_loses_nothing() -> None:
    """What was not yielded is still there, in order."""
    merge = Merge(_buffers("abc", "xyz"), quota=2)

    assert next(merge.round()).node_id == "a"

    assert _letters(merge.all()) == "bcxyz"


def test_secondaries_wait_for_a_primary_that_is_required() -> None:
    """They are held back until it is live, and again as soon as it is not; its own go on."""
    primary, secondary = buffers = _buffers("", "xyz")
    merge = Merge(buffers, quota=1, require_primary=True)
    rounds = []

    for arrived in (_delivery("a"), _told("a", LIVE), _told("a", DOWN), _told("a", LIVE)):
        assert not merge.ready
        primary.put(arrived)
        rounds.append(_letters(merge.round()))
        if arrived.message.state.source == LIVE:
            assert merge.ready
            rounds.append(_letters(merge.round()))
            primary.put(_told("a", DOWN))
            rounds.append(_letters(merge.round()))
            secondary.put(_delivery("w"))

    assert rounds == ["a", "ax", "y", "a", "a", "az", "w", "a"]


def test_positions_are_those_of_what_was_taken() -> None:
    """A cursor moves with the messages that were handed on, not with those that wait."""
    buffers = [SourceBuffer(100), SourceBuffer(100)]
    begun = NodePosition(node_id="p", position=Position(epoch=1, sequence=5))
    merge = Merge(buffers, quota=1, positions=[begun])
    for through in (6, 7):
        buffers[0].put(_delivery("p", through))
        buffers[1].put(_delivery("s", through))

    assert merge.positions == [begun]
    list(merge.round())

    assert {p.node_id: p.position.sequence for p in merge.positions} == {"p": 7, "s": 6}


def test_a_reset_leaves_no_position_until_the_snapshot_is_complete_and_a_state_changes_none() -> (
    None
):
    """Nobody can go on in the middle of a snapshot; what is said of a source moves nothing."""
    (buffer,) = buffers = [SourceBuffer(100)]
    merge = Merge(buffers, quota=1)
    reset = WatchEventsResponse(node_id="p", reset=Reset())
    seen = []

    for arrived in (
        _delivery("p", 1),
        _told("p", DOWN),
        Delivery(reset, None, 1),
        _delivery("p", 9),
    ):
        buffer.put(arrived)
        list(merge.all())
        seen.append([p.position.sequence for p in merge.positions])

    assert seen == [[1], [1], [], [9]]


def test_a_buffer_is_full_at_its_limit_and_lets_a_large_message_in_alone() -> None:
    """The bound is one message over the limit at most; taking makes room."""
    buffer = SourceBuffer(10)
    large = _delivery("large")._replace(size=50)
    buffer.put(large)
    assert buffer.full

    assert buffer.pop() is large

    assert not buffer.full


def test_an_abandoned_buffer_is_empty() -> None:
    """Giving a buffer up frees what it held."""
    buffer = _buffers("abc")[0]

    buffer.abandon()

    assert buffer.abandoned
    assert len(buffer) == 0
    assert not buffer.full


@patiently
@given(st.lists(_step, max_size=60), st.integers(1, 3))
def test_each_source_keeps_its_order_and_loses_nothing(
    steps: list[tuple[str, int, int]], quota: int
) -> None:
    """However puts, takes and broken-off rounds mix, every message comes once and in order."""
    buffers = [SourceBuffer(1 << 30) for _ in range(3)]
    merge = Merge(buffers, quota=quota)
    sent: list[deque[int]] = [deque() for _ in range(3)]
    counter = 0

    for kind, place, count in steps:
        if kind == "put":
            for _ in range(count):
                counter += 1
                buffers[place].put(_delivery(str(place), counter))
                sent[place].append(counter)
            continue
        turn: Iterator[WatchEventsResponse] = (
            merge.all() if kind == "take" else islice(merge.round(), count)
        )
        messages = [(int(message.node_id), message.through) for message in turn]
        assert [place for place, _ in messages] == sorted(place for place, _ in messages)
        for source, through in messages:
            assert sent[source].popleft() == through
    rest = [message.through for message in merge.all()]

    assert rest == [through for expected in sent for through in expected]
