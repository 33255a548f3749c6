"""What a follower of some tiers is told of a node that has none of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kvtier.client import BlockIndex
from kvtier.proxy.course import Course
from kvtier.proxy.relay import Relay
from kvtier.proxy.ring import Ring
from kvtier.proxy.told import Told
from kvtier.proxy.turnstile import Turnstile
from kvtier.proxy.wishes import Wishes
from kvtier.server.events.bell import Bell
from kvtier.server.events.pace import Pace
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import (
    NodePosition,
    ResetReason,
    SourceState,
    WatchEventsRequest,
    WatchEventsResponse,
)
from tests.unit.client.messages import Script
from tests.waiting import until

EPOCH = 7


class Crowded:
    """Where nodes are followed: there is a place once a test says so, and nobody may ask."""

    def __init__(self) -> None:
        self.place = asyncio.Semaphore(0)
        self.asked = 0

    def places(self, node_id: str) -> asyncio.Semaphore:
        return self.place

    def open(self, *asked: object) -> Any:
        self.asked += 1
        raise AssertionError(asked)


def ring(node_id: str, begin: Position) -> Ring:
    return Ring(node_id, begin, max_batches=8, max_bytes=1 << 16, message_bytes=1 << 16)


def in_touch() -> Relay:
    relay = Relay("node", BlockIndex(), ring, Bell(), Told())
    relay.state = SourceState.SOURCE_STATE_LIVE
    return relay


def become_ready(relay: Relay, through: int) -> None:
    """Let a node say that it has a tier cpu0, and that its log has come to a position."""
    script = Script("node", EPOCH, through)
    for message in (script.reset(), script.tier("cpu0"), script.synced(0)):
        relay.take(message)


@asynccontextmanager
async def following(
    relay: Relay, source: Crowded, position: Position | None = None
) -> AsyncIterator[list[WatchEventsResponse]]:
    """Follow a node's tier fs0, and note what is told."""
    told: list[WatchEventsResponse] = []

    async def send(message: bytes) -> None:
        told.append(WatchEventsResponse.FromString(message))

    positions = [NodePosition(node_id="node", position=position)] if position else []
    patience = {"patience": 9.0, "catch_up_patience": 9.0}
    turnstile = Turnstile(send, quota=1, holds=lambda: False, **patience)
    wishes = Wishes.of(WatchEventsRequest(tiers=["fs0"], positions=positions))
    pace = Pace(60.0, 0.0, 1 << 16, 9.0, 9.0)
    lane = turnstile.lane(first=True)
    course = Course(relay, wishes, lane, source, pace, position=position)
    tasks = [asyncio.create_task(part) for part in (course.run(), turnstile.run())]
    try:
        yield told
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_node_whose_tiers_become_known_late_is_not_asked_for_all_of_them() -> None:
    """Its tiers were not known when the follower began to wait for a place at it."""
    relay, source = in_touch(), Crowded()
    async with following(relay, source) as told:
        await asyncio.sleep(0)
        become_ready(relay, through=3)
        source.place.release()
        await until(lambda: source.asked or len(told) > 1)

    assert not source.asked
    assert [each.WhichOneof("kind") for each in told] == ["reset", "synced"]


async def test_a_reset_into_another_life_lies_in_that_life() -> None:
    """The follower had come further in the one before."""
    relay = in_touch()
    become_ready(relay, through=3)
    async with following(relay, Crowded(), Position(epoch=EPOCH - 1, sequence=450)) as told:
        await until(lambda: len(told) > 1)

    assert [(each.epoch, each.after, each.through) for each in told] == [(EPOCH, 3, 3)] * 2
    assert told[0].reset.reason == ResetReason.RESET_REASON_EPOCH_CHANGED
