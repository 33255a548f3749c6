"""Merging the streams of several sources."""

from collections import deque
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from kvtier.client.merge import SourceBuffer, merged

from .patience import patiently

_step = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 2), st.integers(1, 5)),
    st.tuples(st.just("take"), st.just(0), st.just(0)),
    st.tuples(st.just("round"), st.integers(1, 3), st.integers(0, 20)),
)


def _buffers(*contents: str) -> list[SourceBuffer[str]]:
    buffers: list[SourceBuffer[str]] = []
    for content in contents:
        buffer: SourceBuffer[str] = SourceBuffer(100)
        for item in content:
            buffer.put(item, 1)
        buffers.append(buffer)
    return buffers


def test_all_of_the_primary_comes_first_then_each_secondary_in_order() -> None:
    """Taking everything leaves nothing, whoever delivered when."""
    buffers = _buffers("ab", "uvw", "xyz")

    assert "".join(merged(buffers)) == "abuvwxyz"
    assert not any(buffers)


def test_a_round_is_all_of_the_primary_and_a_quota_of_each_secondary() -> None:
    """A chatty secondary waits for the next round, and the others do not wait for it."""
    buffers = _buffers("abc", "uvwxyz", "12")

    rounds = ["".join(merged(buffers, 2)) for _ in range(3)]

    assert rounds == ["abcuv12", "wx", "yz"]


def test_a_primary_that_never_stops_does_not_starve_the_secondaries() -> None:
    """What the primary delivers during a round belongs to the next one."""
    primary, _ = buffers = _buffers("ab", "xy")
    seen = ""

    for item in merged(buffers, 1):
        seen += item
        primary.put("p", 1)

    assert seen == "abx"


def test_a_round_that_is_given_up_loses_nothing() -> None:
    """What was not yielded is still there, in order."""
    buffers = _buffers("abc", "xyz")

    assert next(merged(buffers, 2)) == "a"

    assert "".join(merged(buffers)) == "bcxyz"


def test_a_buffer_is_full_at_its_limit_and_lets_a_large_item_in_alone() -> None:
    """The bound is one item over the limit at most; taking makes room."""
    buffer: SourceBuffer[str] = SourceBuffer(10)
    buffer.put("large", 50)
    assert buffer.full

    assert buffer.pop() == "large"

    assert not buffer.full


def test_an_abandoned_buffer_is_empty() -> None:
    """Giving a buffer up frees what it held."""
    buffer = _buffers("abc")[0]

    buffer.abandon()

    assert buffer.abandoned
    assert len(buffer) == 0
    assert not buffer.full


@patiently
@given(st.lists(_step, max_size=60))
def test_each_source_keeps_its_order_and_loses_nothing(steps: list[tuple[str, int, int]]) -> None:
    """However puts, takes and broken-off rounds mix, every source's items come once, in order."""
    buffers: list[SourceBuffer[tuple[int, int]]] = [SourceBuffer(1 << 30) for _ in range(3)]
    sent: list[deque[tuple[int, int]]] = [deque() for _ in range(3)]
    counter = 0

    for kind, one, other in steps:
        if kind == "put":
            for _ in range(other):
                counter += 1
                buffers[one].put((one, counter), 1)
                sent[one].append((one, counter))
            continue
        quota = None if kind == "take" else one
        limit = 1 << 30 if kind == "take" else other
        items = list(islice(merged(buffers, quota), limit))
        sources = [item[0] for item in items]
        assert sources == sorted(sources)
        for item in items:
            assert sent[item[0]].popleft() == item
    rest = list(merged(buffers))

    assert rest == [item for expected in sent for item in expected]
