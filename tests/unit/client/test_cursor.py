"""What may follow what in a source's stream."""

import pytest

from kvtier.client.cursor import Cursor
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import WatchEventsResponse

from .messages import Script, stored


def _accept(cursor: Cursor, *messages: WatchEventsResponse) -> str | None:
    for message in messages:
        problem = cursor.accept(message, message.WhichOneof("kind") or "")
        if problem is not None:
            return problem
    return None


def _live(script: Script) -> Cursor:
    cursor = Cursor()
    assert _accept(cursor, *script.start(stored(1))) is None
    return cursor


def test_a_stream_by_the_grammar_is_accepted_and_counted() -> None:
    """Reset, pages with live batches between them, synced, batches, progress."""
    script, cursor = Script(through=4), Cursor()

    problem = _accept(
        cursor,
        script.tier(),
        script.reset(),
        script.namespace(),
        script.page(stored(1)),
        script.batch(stored(2)),
        script.page(stored(3)),
        script.synced(3),
        script.batch(stored(4)),
        script.progress(skipped=3),
        script.tier(),
        script.progress(),
    )

    assert problem is None
    assert cursor.position == Position(epoch=7, sequence=9)


def test_an_unfinished_snapshot_is_no_place_to_resume() -> None:
    """Until synced there is no position, also when there was one before the reset."""
    script = Script()
    cursor = _live(script)
    assert cursor.position is not None

    _accept(cursor, script.reset(), script.page(stored(1)), script.batch(stored(2)))

    assert cursor.position is None


def test_a_resumed_stream_starts_with_synced_at_the_position() -> None:
    """A source that still holds the position goes on from there."""
    cursor = Cursor(Position(epoch=7, sequence=3))
    script = Script(through=3)

    problem = _accept(cursor, script.tier(), script.namespace(), script.synced(1), script.batch())

    assert problem is None
    assert cursor.position == Position(epoch=7, sequence=4)


def test_missing_sequences_are_named() -> None:
    """A hole is found by the first message behind it, and the position stays before it."""
    script = Script()
    cursor = _live(script)
    _accept(cursor, script.batch(stored(2)))
    script.batch(stored(3))
    script.batch(stored(4))

    problem = _accept(cursor, script.batch(stored(5)))

    assert problem == "sequences 2 to 3 are missing"
    assert cursor.position == Position(epoch=7, sequence=1)


def test_a_repeated_message_is_refused() -> None:
    """What was applied once does not come again."""
    script = Script()
    cursor = _live(script)
    batch = script.batch(stored(2))
    _accept(cursor, batch)

    assert _accept(cursor, batch) == "sequences 1 to 1 came again"


@pytest.mark.parametrize("kind", ["batch", "progress", "page"])
def test_nothing_comes_before_a_reset(kind: str) -> None:
    """A source that was not asked to resume has to start over."""
    script = Script()
    message = getattr(script, kind)()

    assert (_accept(Cursor(), message) or "").endswith("came before a reset")


def test_synced_without_a_position_or_a_reset_is_refused() -> None:
    """A view that nothing was built for cannot be complete."""
    assert _accept(Cursor(), Script().synced(0)) == "synced came before a reset"


@pytest.mark.parametrize("again", ["page", "synced"])
def test_a_snapshot_does_not_go_on_after_synced(again: str) -> None:
    """After synced only batches and progress move the view."""
    script = Script()
    cursor = _live(script)
    message = script.page(stored(9)) if again == "page" else script.synced(1)

    assert "came after synced without a reset" in (_accept(cursor, message) or "")


def test_another_life_of_the_log_needs_a_reset() -> None:
    """An epoch that changes in the middle is refused; with a reset it is a new start."""
    cursor = _live(Script(epoch=7))
    other = Script(epoch=8)

    assert _accept(cursor, other.batch(stored(1))) == "epoch 8 follows epoch 7 without a reset"
    assert _accept(cursor, *other.start(stored(1))) is None


def test_a_log_without_an_epoch_is_none() -> None:
    """Nobody could go on from a position in it."""
    cursor = _live(Script(epoch=7))

    problem = _accept(cursor, Script(epoch=0).reset())

    assert problem == "a reset has epoch 0, which no log has"
    assert cursor.position == Position(epoch=7, sequence=0)


def test_a_message_does_not_go_backwards() -> None:
    """A message accounts for what is behind its start."""
    script = Script(through=5)
    cursor = _live(script)
    message = script.progress()
    message.through = 4

    assert _accept(cursor, message) == "the message goes back from 5 to 4"


@pytest.mark.parametrize("sequences", [[1], [5], [4, 4], [5, 4], [2, 3, 9]])
def test_batches_lie_in_order_within_their_message(sequences: list[int]) -> None:
    """A batch before the message's start, after its end, twice or out of order is refused."""
    script = Script(through=1)
    cursor = _live(script)
    message = script.batch(stored(1))
    message.through = 4
    del message.batches.batches[:]
    for sequence in sequences:
        message.batches.batches.add(sequence=sequence)

    assert "does not lie between" in (_accept(cursor, message) or "")


def test_a_reopened_cursor_expects_a_new_start() -> None:
    """On a new stream the old one's place counts only through the position."""
    script = Script()
    cursor = _live(script)

    cursor.reopen()

    assert "came before a reset" in (_accept(cursor, script.batch(stored(2))) or "")
    assert cursor.position == Position(epoch=7, sequence=0)
