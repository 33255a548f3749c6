"""Followers see a tier find what it holds, and hear when that is all, or what is wrong."""

import os
from collections.abc import AsyncIterator

import pytest

from kvtier.server.config import NodeConfig
from kvtier.server.lasting import recovery
from kvtier.server.lifecycle import TierServer
from kvtier.server.stores import open as opening
from kvtier.v1.event_service_pb2 import TierState, WatchEventsResponse
from tests.contract.following import following
from tests.contract.support import hash_set, words
from tests.waiting import until

from .lives import FS, HeldShelf, chain, fs_tier, lay


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> HeldShelf:
    """A shelf with six blocks, of which two can be looked at yet."""
    monkeypatch.setattr(recovery, "_BATCH", 2)
    shelf = HeldShelf(2)
    lay(shelf, chain(*range(6)))
    monkeypatch.setattr(opening, "_open_shelf", lambda *_: shelf)
    return shelf


@pytest.fixture
async def server(shelf: HeldShelf) -> AsyncIterator[TierServer]:
    settings = {
        "node_id": f"follow-{os.getpid()}",
        "listen": "127.0.0.1:0",
        "tiers": [fs_tier(10)],
        "drain_timeout": 0,
    }
    server = TierServer(NodeConfig.model_validate(settings))
    await server.start()
    yield server
    shelf.let_through()
    await server.drain_and_stop()


def states(messages: list[WatchEventsResponse]) -> list[tuple[str, str]]:
    told = [message.state for message in messages if message.HasField("state")]
    return [(words(TierState, [state.tier_state])[0], state.reason) for state in told]


async def test_what_is_found_follows_and_ready_comes_last(
    server: TierServer, shelf: HeldShelf
) -> None:
    """A follower is in sync at once, and at READY it knows every block."""
    await until(lambda: server.node.tier(FS).occupancy.ready == 2)
    async with following(server.address) as follower:
        assert follower.fold.synced
        assert {key.block_hash for key in follower.fold.view} == hash_set([4, 5])

        shelf.let_through()
        await until(lambda: len(states(follower.messages)) == 2)

        assert {key.block_hash for key in follower.fold.view} == hash_set(range(6))
        assert states(follower.messages) == [("RECOVERING", "33 %"), ("READY", "")]
        async with following(server.address) as late:
            assert late.fold.view == follower.fold.view
            assert states(late.messages) == [("READY", "")]


async def test_trouble_is_told_with_its_reason(server: TierServer, shelf: HeldShelf) -> None:
    """READ_ONLY says what an operator has to mend."""
    shelf.let_through()
    await until(lambda: not server.node.tier(FS).health.recovering)
    async with following(server.address) as follower:
        server.node.tier(FS).health.fault("no space left on device")
        await until(lambda: len(states(follower.messages)) == 3)

    assert states(follower.messages) == [
        ("READY", ""),
        ("READ_ONLY", "no space left on device"),
        ("READY", ""),
    ]
