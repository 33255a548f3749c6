"""A follower's counts, and what a demo concludes from them."""

import asyncio

import pytest

from kvtier.cli.demo.checks import counts_add_up, never_too_full, primary_first
from kvtier.cli.demo.plan import CPU, GPU, REMOTE, Plan
from kvtier.cli.demo.rounds import Rounds
from kvtier.cli.exit import CommandError
from kvtier.cli.follow import Follower, TierKey
from kvtier.cli.replay import replay_namespace
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import (
    BlockRemoved,
    BlockStored,
    EventBatch,
    EventBatches,
    Reset,
    SnapshotPage,
    State,
    Synced,
    WatchEventsResponse,
)
from kvtier.wire.namespaces import fingerprint

NAMESPACE = replay_namespace(64)
FINGERPRINT = fingerprint(NAMESPACE)
HASHES = [bytes([n]) * 32 for n in range(9)]
TIER = TierKey("primary", "gpu0")
PLAN = Plan([], NAMESPACE, {GPU: 3, CPU: 3, REMOTE: 3})


class Log:
    """Makes the messages of a node's stream."""

    def __init__(self, node_id: str = "primary", tier: str = "gpu0") -> None:
        self.node_id = node_id
        self.tier = tier
        self.sequence = 0

    def message(self, **kind: object) -> WatchEventsResponse:
        place = {"after": self.sequence, "through": self.sequence}
        return WatchEventsResponse(node_id=self.node_id, epoch=1, **place, **kind)  # type: ignore[arg-type]

    def start(self, *held: int) -> list[WatchEventsResponse]:
        page = SnapshotPage(stored=[self._stored(held)] if held else [])
        return [
            self.message(reset=Reset()),
            self.message(namespace=NAMESPACE),
            self.message(snapshot=page),
            self.message(synced=Synced(blocks=len(held))),
        ]

    def batch(
        self, *, stored: tuple[int, ...] = (), removed: tuple[int, ...] = ()
    ) -> WatchEventsResponse:
        self.sequence += 1
        batch = EventBatch(
            sequence=self.sequence,
            stored=[self._stored(stored)] if stored else [],
            removed=[
                BlockRemoved(
                    tier=self.tier,
                    namespace=FINGERPRINT,
                    block_hashes=b"".join(HASHES[n] for n in removed),
                )
            ]
            if removed
            else [],
        )
        message = self.message(batches=EventBatches(batches=[batch]))
        message.after = self.sequence - 1
        return message

    def _stored(self, places: tuple[int, ...]) -> BlockStored:
        return BlockStored(
            tier=self.tier,
            namespace=FINGERPRINT,
            start_positions=[0],
            block_hashes=b"".join(HASHES[n] for n in places),
        )


def _follower(*messages: WatchEventsResponse) -> Follower:
    follower = Follower()
    for message in messages:
        follower.apply(message)
    return follower


def test_stores_and_removals_are_counted_from_the_events() -> None:
    """Counts are of blocks, not of messages, and the index follows."""
    log = Log()

    follower = _follower(
        *log.start(), log.batch(stored=(0, 1, 2)), log.batch(stored=(3,), removed=(1, 2))
    )

    assert follower.stored[TIER] == 4
    assert follower.removed[TIER] == 2
    assert follower.highest[TIER] == 3
    assert follower.resident(TIER) == 2


def test_what_a_tier_held_before_is_known_but_not_counted() -> None:
    """Blocks of the snapshot are resident, and no stores."""
    log = Log()

    follower = _follower(*log.start(0, 1), log.batch(stored=(2,)))

    assert follower.stored[TIER] == 1
    assert follower.resident(TIER) == 3


def test_a_new_start_after_the_first_is_a_gap_in_the_counts() -> None:
    """A reset of a source that was in sync is counted: its counts are no longer whole."""
    log = Log()
    follower = _follower(*log.start(), log.batch(stored=(0,)))

    for message in log.start(0, 1, 2):
        follower.apply(message)

    assert follower.gaps == 1
    assert follower.stored[TIER] == 1
    assert follower.resident(TIER) == 3


async def test_waiting_ends_when_the_position_is_reached() -> None:
    """A waiter goes on with the message that brings the source to the sequence."""
    log = Log()
    follower = _follower(*log.start(), log.batch(stored=(0,)))

    waiting = asyncio.create_task(follower.arrival.reach("primary", Position(epoch=1, sequence=2)))
    await asyncio.sleep(0)
    before = waiting.done()
    follower.apply(log.batch(stored=(1,)))
    await asyncio.wait_for(waiting, 1)

    assert not before


async def test_waiting_ends_with_the_streams_failure() -> None:
    """A stream that fails for good is told to whoever waits for it."""
    follower = Follower()

    waiting = asyncio.create_task(follower.arrival.reach("primary"))
    await asyncio.sleep(0)
    follower.arrival.fail(RuntimeError("refused"))

    with pytest.raises(RuntimeError, match="refused"):
        await waiting


async def test_waiting_for_what_does_not_come_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A position that no event brings is an error after a while."""
    monkeypatch.setattr("kvtier.cli.arrival._PATIENCE", 0.01)

    with pytest.raises(CommandError, match="position 7"):
        await _follower(*Log().start()).arrival.reach("primary", Position(epoch=1, sequence=7))


def _rounds(*rounds: list[WatchEventsResponse]) -> Rounds:
    taken = Rounds("primary")
    for messages in rounds:
        taken.take(messages)
    return taken


def test_a_round_in_which_the_primary_comes_late_is_found() -> None:
    """A secondary's message ahead of one of the primary breaks the order."""
    primary, secondary = Log(), Log("secondary", "cpu0")
    start = [*primary.start(), *secondary.start()]

    good = _rounds(start, [primary.batch(stored=(0,)), secondary.batch(stored=(0,))])
    bad = _rounds(start, [secondary.batch(stored=(1,)), primary.batch(stored=(1,))])

    assert primary_first(good).holds
    assert (good.count, good.out_of_order) == (2, 0)
    assert not primary_first(bad).holds
    assert bad.out_of_order == 1


def test_a_source_without_a_name_yet_breaks_no_order() -> None:
    """What is told of a node before its id is known belongs to no one."""
    nameless = WatchEventsResponse(state=State(reason="connecting"))

    rounds = _rounds([nameless, *Log().start()])

    assert primary_first(rounds).holds


def test_a_tier_that_shows_more_than_it_holds_is_found() -> None:
    """Stores ahead of the removals that made their room show as too many blocks."""
    log = Log()
    stores = [log.batch(stored=(0, 1, 2)), log.batch(stored=(3,))]

    late = _rounds(log.start(), stores, [log.batch(removed=(0,))])
    other = Log()
    in_time = _rounds(
        other.start(), [other.batch(stored=(0, 1, 2)), other.batch(stored=(3,), removed=(0,))]
    )

    assert not never_too_full(PLAN, late).holds
    assert "primary/gpu0" in never_too_full(PLAN, late).text
    assert never_too_full(PLAN, in_time).holds


def test_counts_that_do_not_add_up_are_found() -> None:
    """A gap in the stream, or blocks that no store told of, is no whole account."""
    log = Log()

    whole = _rounds(log.start(), [log.batch(stored=(0,))])
    held_before = _rounds(Log().start(5))
    gap = _rounds(Log().start(), Log().start())

    assert counts_add_up(PLAN, whole).holds
    assert not counts_add_up(PLAN, held_before).holds
    assert not counts_add_up(PLAN, gap).holds


def test_a_stretch_worth_showing_has_stores_and_removals_of_both_nodes() -> None:
    """The latest such round is kept, with the rounds ahead of it."""
    primary, secondary = Log(), Log("secondary", "cpu0")
    first = [primary.batch(stored=(0,)), secondary.batch(stored=(0,))]
    second = [
        primary.batch(stored=(1,), removed=(0,)),
        secondary.batch(stored=(1,), removed=(0,)),
    ]
    third = [primary.batch(stored=(2,))]

    rounds = _rounds([*primary.start(), *secondary.start()], first, second, third)

    assert [number for number, _ in rounds.stretch] == [2, 3]
    assert [event["event"] for event in rounds.stretch[1][1]] == [
        "removed",
        "stored",
        "removed",
        "stored",
    ]
