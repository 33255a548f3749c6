"""Followers are told the states of tiers, each when they have all that came before it."""

import asyncio

from kvtier.server.events.source import TierInfo
from kvtier.v1.event_service_pb2 import TierState

from .fakes import CPU, GPU, READY, FakeNode, block
from .reader import Reader, serve
from .virtual_time import virtual_time

RECOVERING = TierState.TIER_STATE_RECOVERING
READ_ONLY = TierState.TIER_STATE_READ_ONLY


def states(reader: Reader) -> list[tuple[str, int, str]]:
    """What a follower was told of tiers, in order."""
    told = [m.state for m in reader.messages if m.HasField("state")]
    return [(state.tier, state.tier_state, state.reason) for state in told]


@virtual_time
async def test_a_change_is_told_at_once() -> None:
    """It does not wait for an event or a heartbeat, and says why."""
    node = FakeNode()
    reader = Reader(serve(node, heartbeat_interval=1000.0)).start()
    await reader.until("synced", 0.1)

    node.turn(READ_ONLY, "no space left on device")
    await asyncio.sleep(0.01)
    node.turn(READY)
    await asyncio.sleep(0.01)

    assert states(reader) == [
        ("cpu0", READY, ""),
        ("cpu0", READ_ONLY, "no space left on device"),
        ("cpu0", READY, ""),
    ]


@virtual_time
async def test_a_state_comes_after_the_events_before_it() -> None:
    """A tier that is READY has told a follower, however slow, all that it recovered."""
    node = FakeNode(TierInfo(0, "cpu0", CPU, RECOVERING, "0 %"))
    reader = Reader(serve(node, message_bytes=1)).start()
    await reader.until("synced", 0.1)
    reader.delay = 0.1

    node.store(block(0))
    await asyncio.sleep(0.05)
    for number in range(1, 10):
        node.store(block(number))
    node.turn(READY)
    held = node.contents()
    node.store(block(10))
    await asyncio.sleep(60)

    assert [state for _, state, _ in states(reader)] == [RECOVERING, READY]
    place = max(place for place, kind in enumerate(reader.kinds) if kind == "state")
    before = [batch for message in reader.messages[:place] for batch in message.batches.batches]
    assert len(before) >= len(held)
    assert reader.fold.view == node.contents()


@virtual_time
async def test_synced_does_not_wait_for_recovery() -> None:
    """A follower is in sync with what is known, and what is found follows."""
    node = FakeNode(TierInfo(0, "cpu0", CPU, RECOVERING, "counting blocks"))
    node.store(block(1))
    reader = Reader(serve(node)).start()

    await reader.until("synced", 0.1)
    node.store(block(2))
    await asyncio.sleep(1)

    assert states(reader) == [("cpu0", RECOVERING, "counting blocks")]
    assert reader.fold.view == node.contents()


@virtual_time
async def test_states_pass_the_filter_of_their_tier() -> None:
    """A follower of one tier hears nothing of the others."""
    node = FakeNode(TierInfo(0, "gpu0", GPU, READY), TierInfo(1, "cpu0", CPU, RECOVERING))
    reader = Reader(serve(node), tiers=["gpu0"]).start()
    await reader.until("synced", 0.1)

    node.turn(READY, tier=1)
    node.turn(READ_ONLY, "read-only file system", tier=0)
    await asyncio.sleep(1)

    assert states(reader) == [("gpu0", READY, ""), ("gpu0", READ_ONLY, "read-only file system")]


@virtual_time
async def test_a_state_that_did_not_change_is_not_told_again() -> None:
    """A change of one tier is no news of another."""
    node = FakeNode(TierInfo(0, "gpu0", GPU, READY), TierInfo(1, "cpu0", CPU, RECOVERING))
    reader = Reader(serve(node)).start()
    await reader.until("synced", 0.1)

    node.turn(READY, tier=1)
    await asyncio.sleep(1)

    assert [tier for tier, _, _ in states(reader)] == ["gpu0", "cpu0", "cpu0"]
