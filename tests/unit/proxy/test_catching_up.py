"""Following a node for one follower, at an address that stops telling of it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from kvtier.client import BlockIndex
from kvtier.client.stream import source_state
from kvtier.proxy.catching_up import Broken, CatchUp
from kvtier.proxy.relay import Relay
from kvtier.proxy.ring import Ring
from kvtier.proxy.standing import Standing
from kvtier.proxy.told import Told
from kvtier.proxy.wishes import Wishes
from kvtier.server.events.bell import Bell
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import (
    Sources,
    SourceState,
    WatchEventsRequest,
    WatchEventsResponse,
)
from tests.unit.client.messages import Script, stored

SUSPECT = SourceState.SOURCE_STATE_SUSPECT
DOWN = SourceState.SOURCE_STATE_DOWN
REMOVED = SourceState.SOURCE_STATE_REMOVED


class Scripted:
    """A stream that brings some messages, and then nothing for ever."""

    def __init__(self, messages: Sequence[WatchEventsResponse]) -> None:
        self._messages = messages

    def places(self, node_id: str) -> asyncio.Semaphore:
        return asyncio.Semaphore(1)

    def open(self, *asked: object) -> Any:
        return self

    async def __aiter__(self) -> AsyncIterator[WatchEventsResponse]:
        for message in self._messages:
            yield message
        await asyncio.Event().wait()

    def close(self) -> None:
        """End the call."""


def ring(node_id: str, begin: Position) -> Ring:
    return Ring(node_id, begin, max_batches=8, max_bytes=1 << 16, message_bytes=1 << 16)


def naming(*node_ids: str) -> WatchEventsResponse:
    return WatchEventsResponse(sources=Sources(node_ids=node_ids))


async def caught_up(*messages: WatchEventsResponse) -> tuple[Broken | None, list[str | None]]:
    """Return how the following of a node ends, and what was handed on."""
    told: list[str | None] = []

    async def send(message: bytes) -> None:
        told.append(WatchEventsResponse.FromString(message).WhichOneof("kind"))

    catch_up = CatchUp(Relay("node", BlockIndex(), ring, Bell(), Told()), Standing(None), send)
    async with asyncio.timeout(5):
        broken = await catch_up.run(Scripted(messages), Wishes.of(WatchEventsRequest()))
    return broken, told


GONE = {
    "a proxy that names it no more": [naming("node", "other"), naming("other")],
    "a proxy that says that it is removed": [
        naming("node"),
        source_state("node", (0, 0), REMOVED, "gone"),
    ],
    "a proxy that cannot reach it": [naming("node"), source_state("node", (0, 0), DOWN, "gone")],
    "another node": [Script("other").reset()],
}


@pytest.mark.parametrize("messages", GONE.values(), ids=GONE.keys())
async def test_who_stops_telling_of_the_node_is_left(messages: list[WatchEventsResponse]) -> None:
    """Though the stream goes on: the node may be followed elsewhere by now."""
    broken, told = await caught_up(*messages)

    assert broken is not None
    assert "node cannot be followed there any more" in broken.why
    assert told == []


async def test_other_nodes_of_a_proxy_and_a_doubt_change_nothing() -> None:
    """The node's messages are handed on, as long as the proxy names it."""
    node, other = Script("node"), Script("other")
    begin = [naming("node", "other"), other.reset(), *node.start(stored(1))]
    doubt = source_state("node", (node.epoch, node.through), SUSPECT, "silent")

    broken, told = await caught_up(*begin, doubt, node.batch(stored(2)), naming("other"))

    assert broken is not None
    assert told == ["reset", "namespace", "snapshot", "synced", "batches"]
