"""Lanes take turns: the primary first, none waits for another, and none starves."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest

from kvtier.proxy.turnstile import Lane, Turnstile
from tests.unit.events.virtual_time import virtual_time


class Sent:
    """What came through a turnstile.

    Attributes:
        messages: The messages, in order.
        held: Whether secondaries are held up.
    """

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.held = False
        self.reading = asyncio.Event()
        self.reading.set()

    async def take(self, message: bytes) -> None:
        await self.reading.wait()
        self.messages.append(message.decode())


@asynccontextmanager
async def turnstile(quota: int = 2) -> AsyncIterator[tuple[Turnstile, Sent]]:
    sent = Sent()
    stile = Turnstile(
        sent.take, quota=quota, holds=lambda: sent.held, patience=60.0, catch_up_patience=10.0
    )
    running = asyncio.create_task(stile.run())
    try:
        yield stile, sent
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def send_all(lane: Lane, name: str, count: int) -> None:
    """Send messages as a source that has them all."""
    told = 0
    lane.reach = lambda: (told, count)
    for number in range(count):
        await lane.send(f"{name}{number}".encode())
        told = number + 1


async def through(sent: Sent, *sending: Callable[[], Coroutine[None, None, None]]) -> list[str]:
    """Let sources send at once, and return in which order their messages came."""
    sent.reading.clear()
    tasks = [asyncio.create_task(each()) for each in sending]
    await asyncio.sleep(0.1)
    sent.reading.set()
    await asyncio.gather(*tasks)
    return sent.messages


@virtual_time
async def test_a_round_is_all_of_the_primary_and_a_quota_of_each_secondary() -> None:
    """What the secondaries have beyond it comes in the next rounds."""
    async with turnstile(quota=2) as (stile, sent):
        primary, one, two = (stile.lane(first=not place) for place in range(3))

        order = await through(
            sent,
            lambda: send_all(primary, "p", 5),
            lambda: send_all(one, "a", 3),
            lambda: send_all(two, "b", 3),
        )

    assert order == ["p0", "p1", "p2", "p3", "p4", "a0", "a1", "b0", "b1", "a2", "b2"]


@virtual_time
async def test_a_primary_that_always_has_more_starves_nobody() -> None:
    """What it gets after a round's start waits for the next round."""
    async with turnstile(quota=2) as (stile, sent):
        primary, other = stile.lane(first=True), stile.lane(first=False)
        told = 0
        primary.reach = lambda: (told, told + 3)

        async def endless() -> None:
            nonlocal told
            while len(sent.messages) < 60:
                await primary.send(b"p")
                told += 1

        order = await through(sent, endless, lambda: send_all(other, "a", 10))

    assert [message for message in order if message != "p"] == [f"a{n}" for n in range(10)]
    assert max(len(run) for run in "".join(m[0] for m in order[:25]).split("a")) <= 3


@virtual_time
async def test_a_lane_with_nothing_is_waited_for_by_nobody() -> None:
    """A secondary goes through while the primary has nothing."""
    async with turnstile() as (stile, sent):
        stile.lane(first=True)
        other = stile.lane(first=False)

        await send_all(other, "a", 5)

    assert sent.messages == [f"a{n}" for n in range(5)]


@virtual_time
async def test_held_lanes_wait_and_their_asides_do_not() -> None:
    """An aside of a lane goes before its held message; both are sent once it is let through."""
    async with turnstile() as (stile, sent):
        other, sent.held = stile.lane(first=False), True
        sending = asyncio.create_task(other.send(b"event"))
        await asyncio.sleep(0.1)

        await other.say(lambda: b"aside")
        held = list(sent.messages)
        sent.held = False
        stile.nudge()
        await sending

    assert held == ["aside"]
    assert sent.messages == ["aside", "event"]


@virtual_time
async def test_an_aside_is_made_when_it_is_sent() -> None:
    """It may find that there is nothing to be said any more."""
    async with turnstile() as (stile, sent):
        lane = stile.lane(first=True)

        await lane.say(lambda: None)
        await lane.say(f"after {len(sent.messages)}".encode)

    assert sent.messages == ["after 0"]


@virtual_time
async def test_a_message_that_is_taken_back_is_not_sent() -> None:
    """A lane whose sender is cancelled leaves nothing behind."""
    async with turnstile() as (stile, sent):
        other, sent.held = stile.lane(first=False), True
        sending = asyncio.create_task(other.send(b"event"))
        await asyncio.sleep(0.1)
        sending.cancel()
        await asyncio.sleep(0.1)
        sent.held = False
        stile.nudge()
        await asyncio.sleep(0.1)

    assert sent.messages == []


@virtual_time
async def test_a_turnstile_knows_since_when_a_message_waits() -> None:
    """With less patience while a lane catches up."""
    async with turnstile() as (stile, sent):
        lane = stile.lane(first=True)
        sent.reading.clear()
        sending = asyncio.create_task(lane.send(b"event"))
        await asyncio.sleep(3.0)
        since, patience = stile.waits_since, stile.patience
        lane.catching_up = True
        hurried = stile.patience
        sent.reading.set()
        await sending

    assert since == 0.0
    assert (patience, hurried) == (60.0, 10.0)
    assert stile.waits_since is None
    assert stile.last_sent == 3.0


@virtual_time
async def test_an_end_comes_after_the_message_that_is_being_sent() -> None:
    """What is raised is what was given."""
    sent = Sent()
    stile = Turnstile(sent.take, quota=1, holds=lambda: False, patience=1.0, catch_up_patience=1.0)
    lane = stile.lane(first=True)
    running = asyncio.create_task(stile.run())
    sent.reading.clear()
    sending = [asyncio.create_task(lane.send(each)) for each in (b"one", b"two")]
    await asyncio.sleep(0.1)

    stile.end(ValueError("the end"))
    sent.reading.set()

    with pytest.raises(ValueError, match="the end"):
        await running
    assert sent.messages == ["one"]
    for each in sending:
        each.cancel()
