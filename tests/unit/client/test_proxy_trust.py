"""A proxy believes a mirror only when it is exact, and mends one that is not."""

from collections.abc import Callable

import pytest

from kvtier.client import Backoff, NodeClient, Watch
from kvtier.v1.event_service_pb2 import TierState, WatchEventsResponse

from .manual_time import ManualTime
from .messages import FINGERPRINT, Script, block_set, stored
from .proxying import (
    HIT,
    LIVE,
    MISS,
    RETRY,
    SUSPECT,
    answer,
    events,
    serving,
    settle,
    state_told,
    synced,
)

READ_ONLY = TierState.TIER_STATE_READ_ONLY
READY = TierState.TIER_STATE_READY
RECOVERING = TierState.TIER_STATE_RECOVERING
SILENT = TierState.TIER_STATE_SILENT


def _miscounted(script: Script) -> list[WatchEventsResponse]:
    return [script.reset(), script.namespace(), script.page(stored(1)), script.synced(2)]


def _passed_over(script: Script) -> list[WatchEventsResponse]:
    return [*script.start(stored(1)), script.batch(stored(2, namespace=b"?" * 32))]


@pytest.mark.parametrize("flawed", [_miscounted, _passed_over])
async def test_a_flawed_mirror_is_not_believed_and_is_mended(
    flawed: Callable[[Script], list[WatchEventsResponse]],
) -> None:
    """What did not add up makes a miss a retry until a new snapshot came, asked for once."""
    async with serving("p", "s1") as (proxy, (primary, secondary)):
        primary.say(*primary.script.start())
        primary.node.on("LookupBlocks", *[answer(MISS, MISS)] * 2)

        secondary.say(*flawed(secondary.script))
        told = await state_told(proxy, "s1", SUSPECT)
        (doubtful,) = await proxy.lookup(FINGERPRINT, [block_set(1, 2)])
        await settle(lambda: len(secondary.followers) == 2)
        secondary.say(*secondary.script.start(stored(1)))
        await state_told(proxy, "s1", LIVE)
        (certain,) = await proxy.lookup(FINGERPRINT, [block_set(1, 2)])

        assert doubtful.results == (RETRY, RETRY)
        assert certain.results == (HIT, MISS)
        assert secondary.node.endpoint in told[-1].state.reason
        assert [list(each.positions) for each in secondary.followers] == [[], []]
        assert len(primary.followers) == 1


def _pauses(time: ManualTime) -> list[float]:
    return [seconds for seconds in time.asked if seconds < 600]


async def test_a_node_that_never_adds_up_is_asked_less_and_less_often() -> None:
    """Each snapshot with a flaw makes the next pause longer, up to the backoff's cap."""
    time = ManualTime()

    def watch(client: NodeClient) -> Watch:
        backoff = Backoff(base=0.5, cap=2.0, random=lambda: 1.0)
        return Watch(
            client, heartbeat_interval=600.0, backoff=backoff, clock=time.clock, sleep=time.sleep
        )

    async with serving("p", "s1", watch=watch) as (proxy, (_, secondary)):
        for _ in range(4):
            await settle(lambda: len(secondary.followers) > len(_pauses(time)))
            secondary.say(*_miscounted(secondary.script))
            await state_told(proxy, "s1", SUSPECT)
            await settle(lambda: len(secondary.followers) == len(_pauses(time)))

            time.advance(_pauses(time)[-1])

        assert _pauses(time) == [0.5, 1.0, 2.0, 2.0]


async def test_a_silent_tier_has_nothing_and_holds_no_answer_up() -> None:
    """Its blocks, also those it told before, are not credited; the other tiers answer."""
    async with serving("p", "s1") as (proxy, (primary, secondary)):
        await synced(proxy, (primary, secondary), [], [1])
        primary.node.on("LookupBlocks", answer(MISS, MISS))

        secondary.say(
            secondary.script.batch(stored(2, tier="fs0")), secondary.script.tier("fs0", SILENT)
        )
        await events(proxy, 2)
        (looked,) = await proxy.lookup(FINGERPRINT, [block_set(1, 2)])

        assert looked.results == (HIT, MISS)
        assert looked.prefix_lengths == (0, 1)
        assert proxy.index.quality("s1", "fs0").name == "UNKNOWN"


async def test_what_a_recovering_tier_is_not_known_to_hold_is_asked_for_again() -> None:
    """What it told is a hit; the rest is RETRY until it is ready, and MISS from then on."""
    async with serving("p", "s1") as (proxy, (primary, secondary)):
        await synced(proxy, (primary, secondary), [], [1])
        primary.node.on("LookupBlocks", *[answer(MISS, MISS, MISS)] * 2)

        secondary.say(secondary.script.tier("cpu0"), secondary.script.tier("fs0", RECOVERING))
        await events(proxy, 2)
        (early,) = await proxy.lookup(FINGERPRINT, [block_set(1, 2, 3)])
        secondary.say(
            secondary.script.batch(stored(2, tier="fs0")), secondary.script.tier("fs0", READY)
        )
        await events(proxy, 2)
        (late,) = await proxy.lookup(FINGERPRINT, [block_set(1, 2, 3)])

        assert early.results == (HIT, RETRY, RETRY)
        assert early.prefix_lengths == (0, 1)
        assert late.results == (HIT, HIT, MISS)
        assert late.prefix_lengths == (0, 2)


async def test_a_read_only_tier_answers_as_ever() -> None:
    """That nothing can be written there makes no miss uncertain."""
    async with serving("p", "s1") as (proxy, (primary, secondary)):
        await synced(proxy, (primary, secondary), [], [1])
        primary.node.on("LookupBlocks", answer(MISS, MISS))

        secondary.say(secondary.script.tier("cpu0", READ_ONLY))
        await events(proxy, 1)
        (looked,) = await proxy.lookup(FINGERPRINT, [block_set(1, 2)])

        assert looked.results == (HIT, MISS)
