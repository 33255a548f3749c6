"""A follower that comes back goes on from any position that the log holds, and from no other."""

from collections.abc import Mapping
from typing import Any

import pytest

from kvtier.v1.event_service_pb2 import ResetReason, WatchEventsResponse

from .conftest import Serve
from .folding import Facts, Fold, Key, listed
from .following import Following, following
from .support import Serving, cpu_tier, gpu_tier, hash_set
from .writing import writing

RING = 8
EVENTS = {"max_batches": RING, "linger": 0, "heartbeat_interval": 0.1}
FILTERS: dict[str, dict[str, Any]] = {"all": {}, "one tier": {"tiers": ["cpu0"]}}


async def a_worn_log(serve: Serve) -> Serving:
    """A node whose log has forgotten its beginning, with stores in two tiers by turns."""
    node = await serve(gpu_tier(64), cpu_tier(64), events=EVENTS)
    for step in range(3 * RING):
        await node.store(step, tier="gpu0" if step % 2 else "cpu0")
    assert node.node.log.oldest == 2 * RING
    return node


def placed(
    node: Serving, sequence: int, view: Mapping[Key, Facts], *, epoch: int = 0, **request: Any
) -> Fold:
    """What a follower knew that had come to a position, in the node's log or in another one."""
    fold = Fold(filtered=bool(request))
    fold.node_id, fold.epoch = node.node.node_id, epoch or node.node.log.epoch
    fold.view, fold.through, fold.synced = dict(view), sequence, True
    return fold


def first(follower: Following) -> WatchEventsResponse:
    """What a stream says before anything else."""
    return next(m for m in follower.messages if m.HasField("synced") or m.HasField("reset"))


def reset_reason(follower: Following) -> str:
    message = first(follower)
    assert message.HasField("reset")
    return ResetReason.Name(message.reset.reason).removeprefix("RESET_REASON_")


async def view_now(node: Serving, **request: Any) -> Mapping[Key, Facts]:
    """What a follower that comes now is shown."""
    async with following(node.endpoint, **request) as follower:
        return follower.fold.view


@pytest.mark.parametrize("request_", FILTERS.values(), ids=FILTERS.keys())
@pytest.mark.parametrize("behind", [RING, RING - 1, 1, 0])
async def test_a_position_that_is_held_is_gone_on_from(
    serve: Serve, behind: int, request_: dict[str, Any]
) -> None:
    """From the oldest one to the head: synced there, and then exactly the rest."""
    node = await a_worn_log(serve)
    head = node.node.log.head

    later = hash_set(range(head - behind, head))
    now = await view_now(node, **request_)
    then = {key: facts for key, facts in now.items() if key.block_hash not in later}
    fold = placed(node, head - behind, then, **request_)

    async with following(node.endpoint, fold=fold, **request_) as follower:
        await follower.settle(node.client)

    synced = first(follower)
    assert synced.HasField("synced")
    assert (synced.after, synced.through) == (head - behind, head - behind)
    rest = range(head - behind + 1, head + 1)
    expected = [each for each in rest if not request_ or each % 2]
    assert [batch.sequence for batch in follower.batches] == expected
    assert follower.fold.through == head
    assert follower.fold.view == now
    assert follower.fold.resets == []


REFUSED = {
    "one before the oldest": (2 * RING - 1, 0, "COMPACTED"),
    "zero": (0, 0, "COMPACTED"),
    "one past the head": (3 * RING + 1, 0, "AHEAD_OF_HEAD"),
    "far past the head": (2**64 - 1, 0, "AHEAD_OF_HEAD"),
    "of another life": (3 * RING, 12345, "EPOCH_CHANGED"),
    "zero of another life": (0, 12345, "EPOCH_CHANGED"),
}


@pytest.mark.parametrize("request_", FILTERS.values(), ids=FILTERS.keys())
@pytest.mark.parametrize(("sequence", "epoch", "reason"), REFUSED.values(), ids=REFUSED.keys())
async def test_any_other_position_gets_a_snapshot_and_the_reason(
    serve: Serve, sequence: int, epoch: int, reason: str, request_: dict[str, Any]
) -> None:
    """Nothing of the old view counts any more; the new one is whole at the head."""
    node = await a_worn_log(serve)

    fold = placed(node, sequence, {}, epoch=epoch, **request_)

    async with following(node.endpoint, fold=fold, **request_) as follower:
        await follower.settle(node.client)

    assert reset_reason(follower) == reason
    assert follower.fold.through == node.node.log.head
    assert follower.fold.view == await view_now(node, **request_)
    assert follower.kinds.count("synced") == 1


async def test_the_beginning_of_a_log_that_forgot_nothing_is_gone_on_from(serve: Serve) -> None:
    """Sequence 0 is a position like any other: before the first batch."""
    node = await serve(cpu_tier(8), events=EVENTS)
    for step in range(RING):
        await node.store(step)

    async with following(node.endpoint, fold=placed(node, 0, {})) as follower:
        await follower.settle(node.client)

    assert first(follower).synced.blocks == 0
    assert [batch.sequence for batch in follower.batches] == list(range(1, RING + 1))


async def test_positions_are_gone_on_from_while_writers_are_busy(serve: Serve) -> None:
    """From a moment ago and from long ago: exactly the rest, or a reset that says why."""
    node = await serve(gpu_tier(64), cpu_tier(64), events={**EVENTS, "max_batches": 64})
    seen: list[str] = []
    async with following(node.endpoint) as whole:
        async with writing(node, "cpu0", "gpu0") as writers:
            for turn in range(20):
                fold = placed(node, whole.fold.through, whole.fold.view)
                enough = writers.calls + (2, 20, 60, 0)[turn % 4]
                await whole.until(lambda: writers.calls >= enough)  # noqa: B023 - awaited at once
                async with following(node.endpoint, fold=fold) as follower:
                    await follower.until(lambda: follower.batches)
                seen += follower.fold.resets or ["none"]
            beyond = placed(node, node.node.log.head + 1000, {})
            async with following(node.endpoint, fold=beyond) as far:
                pass
        await whole.settle(node.client)

    assert {"none", "COMPACTED"} <= set(seen) <= {"none", "COMPACTED", "LAGGED"}
    assert far.fold.resets[0] == "AHEAD_OF_HEAD"
    assert whole.fold.view == await listed(node.client)
