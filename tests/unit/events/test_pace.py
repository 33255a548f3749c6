"""When a follower's messages are sent: at once, not too often, and never too seldom."""

import asyncio
from typing import Any

import grpc

from .fakes import FakeNode, block, space_of
from .reader import Reader, serve
from .virtual_time import now, virtual_time


async def _synced(node: FakeNode, **options: Any) -> Reader:
    """Return a follower in sync of a node that was quiet for a while."""
    request = {name: options.pop(name) for name in ("namespaces",) if name in options}
    reader = Reader(serve(node, **options), **request).start()
    await asyncio.sleep(0.5)
    assert reader.fold.synced
    reader.messages.clear()
    reader.times.clear()
    return reader


@virtual_time
async def test_a_batch_after_a_quiet_time_is_sent_at_once() -> None:
    """An idle stream does not linger."""
    node = FakeNode()
    reader = await _synced(node, linger=0.3)

    at = now()
    node.store(block(1))
    await asyncio.sleep(0.1)

    assert reader.times == [at]


@virtual_time
async def test_a_busy_stream_sends_few_large_messages() -> None:
    """While batches keep coming, a message goes every linger and carries all since the last."""
    node = FakeNode()
    reader = await _synced(node, linger=0.01)

    for _ in range(100):
        node.clear()
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.1)

    gaps = [b - a for a, b in zip(reader.times, reader.times[1:], strict=False)]
    assert min(gaps) > 0.0099
    assert 10 <= len(reader.messages) <= 12
    assert reader.fold.through == 100


@virtual_time
async def test_a_backlog_does_not_linger() -> None:
    """Full messages follow each other without a pause."""
    node = FakeNode()
    reader = await _synced(node, linger=0.3, message_bytes=1)

    at = now()
    for _ in range(20):
        node.clear()
    await asyncio.sleep(0.1)

    assert reader.times == [at] * 20


@virtual_time
async def test_an_idle_stream_shows_progress_every_heartbeat() -> None:
    """Nothing happens, and the follower hears so in time."""
    node = FakeNode()
    reader = await _synced(node, heartbeat_interval=1)

    await asyncio.sleep(10)

    assert set(reader.kinds) == {"progress"}
    assert len(reader.messages) == 10
    assert {(m.through, m.progress.head) for m in reader.messages} == {(0, 0)}


@virtual_time
async def test_progress_accounts_for_what_the_filter_dropped() -> None:
    """Batches that do not pass cost no message, and the next progress accounts for all of them."""
    node = FakeNode()
    reader = await _synced(node, heartbeat_interval=1, namespaces=[space_of(1)])

    for number in range(40):
        node.store(block(number, namespace=2))
        await asyncio.sleep(0.01)
    quiet = list(reader.kinds)
    await asyncio.sleep(1)

    assert quiet == []
    assert [(m.after, m.through, m.progress.head) for m in reader.messages] == [(0, 40, 40)]


@virtual_time
async def test_a_filtered_follower_does_not_lag_for_what_it_does_not_see() -> None:
    """A log that turns over with batches that do not pass resets nobody who keeps up."""
    node = FakeNode(max_batches=4)
    reader = await _synced(node, namespaces=[space_of(1)])

    for number in range(200):
        node.store(block(number, namespace=2))
        await asyncio.sleep(0.002)
    node.store(block(1, namespace=1))
    await asyncio.sleep(0.1)

    assert reader.fold.reasons == ["NO_POSITION"]
    assert reader.fold.view == {("cpu0", block(1, namespace=1))}


@virtual_time
async def test_a_long_stretch_that_does_not_pass_gives_everybody_else_a_turn() -> None:
    """Reading a whole log for a filtered follower takes several turns of the loop."""
    node = FakeNode(max_batches=20_000)
    reader = await _synced(node, namespaces=[space_of(1)])
    for _ in range(20_000):
        node.clear(space_of(2))

    turns = 0
    node.draining.set()
    while not reader.ended:
        turns += 1
        await asyncio.sleep(0)

    assert reader.fold.through == 20_000
    assert turns > 6


@virtual_time
async def test_progress_never_overtakes_a_batch() -> None:
    """Whatever is accounted for was sent before, at every single message."""
    node = FakeNode()
    reader = await _synced(node, heartbeat_interval=0.004, linger=0.003)

    for number in range(300):
        node.store(block(number))
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.1)

    sent = 0
    for message in reader.messages:
        sent += len(message.batches.batches)
        assert message.through == sent
        assert not message.HasField("progress") or message.progress.head >= sent
    assert reader.kinds.count("progress") > 50
    assert sent == 300


@virtual_time
async def test_a_follower_with_a_backlog_learns_its_lag() -> None:
    """While it reads slowly, progress between the batches tells it how far the log has come."""
    node = FakeNode()
    reader = await _synced(node, heartbeat_interval=1, message_bytes=1)

    reader.delay = 0.3
    for _ in range(100):
        node.clear()
    await asyncio.sleep(15)

    told = [(m.through, m.progress.head) for m in reader.messages if m.HasField("progress")]
    assert {head for _, head in told} == {100}
    assert len({through for through, _ in told}) > 5
    assert reader.fold.through < 100


@virtual_time
async def test_a_drain_ends_the_stream_after_the_last_event() -> None:
    """Everything in the log is sent, filtered batches are accounted for, then UNAVAILABLE."""
    node = FakeNode()
    everything = await _synced(node, heartbeat_interval=10)
    filtered = await _synced(node, heartbeat_interval=10, namespaces=[space_of(1)])

    node.store(block(1, namespace=1))
    await asyncio.sleep(0.1)
    at = now()
    node.store(block(2, namespace=2))
    node.draining.set()
    await asyncio.sleep(0.1)

    assert everything.fold.view == node.contents()
    assert everything.fold.through == filtered.fold.through == 2
    for reader in (everything, filtered):
        assert reader.error is not None
        assert reader.error.code == grpc.StatusCode.UNAVAILABLE
        assert reader.error.reason == "DRAINING"
        assert max(reader.times) == at
    assert node.followers == 0


@virtual_time
async def test_an_event_that_comes_with_the_last_word_is_still_sent() -> None:
    """What is stored while a draining node accounts for filtered batches comes before the end."""
    node = FakeNode()
    reader = await _synced(node, heartbeat_interval=10, namespaces=[space_of(1)])
    reader.delay = 0.5

    node.store(block(2, namespace=2))
    node.draining.set()
    await asyncio.sleep(0.2)
    node.store(block(1, namespace=1))
    await asyncio.sleep(2)

    assert reader.kinds == ["progress", "batches"]
    assert reader.ended


@virtual_time
async def test_a_drain_ends_an_idle_stream_at_once() -> None:
    """A follower that waits for the next batch is told at once, not at the next heartbeat."""
    node = FakeNode()
    reader = await _synced(node, heartbeat_interval=100)

    node.draining.set()
    await asyncio.sleep(0.01)

    assert reader.ended


@virtual_time
async def test_a_slow_follower_still_gets_the_last_event_of_a_drain() -> None:
    """The stream of a follower that was not reading ends when it has read everything."""
    node = FakeNode()
    reader = await _synced(node)

    reader.stall()
    node.store(block(1))
    node.draining.set()
    await asyncio.sleep(5)
    ended_unread = reader.ended
    reader.read_on()
    await asyncio.sleep(0.1)

    assert not ended_unread
    assert reader.ended
    assert reader.fold.view == node.contents()
