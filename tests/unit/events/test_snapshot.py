"""A snapshot tells what the tiers hold while it changes under it."""

import asyncio
import itertools
from collections.abc import Iterator

import grpc
import pytest

from kvtier.server.events.parts import Part
from kvtier.server.events.source import TierInfo
from kvtier.v1.event_service_pb2 import EventView

from .fakes import CPU, GPU, READY, SILENT, FakeNode, block, space_of
from .reader import Reader, serve
from .virtual_time import now, virtual_time


@virtual_time
async def test_a_stream_starts_with_a_reset_and_ends_its_snapshot_with_synced() -> None:
    """Reset, who is who, pages, synced with the number of blocks - and nothing more."""
    node = FakeNode(slice_slots=4)
    node.store(*[block(number) for number in range(10)])

    reader = Reader(serve(node)).start()
    await asyncio.sleep(0.1)

    assert reader.kinds == [
        "reset", "state", "namespace", "namespace", *["snapshot"] * 3, "synced",
    ]  # fmt: skip
    assert reader.fold.reasons == ["NO_POSITION"]
    assert reader.messages[-1].synced.blocks == 10
    assert {(m.after, m.through) for m in reader.messages} == {(1, 1)}
    assert reader.fold.view == node.contents()


@virtual_time
async def test_an_empty_node_is_synced_without_a_page() -> None:
    """Nothing held, nothing sent, and the position is 0."""
    reader = Reader(serve(FakeNode())).start()
    await asyncio.sleep(0.1)

    assert "snapshot" not in reader.kinds
    assert (reader.messages[-1].through, reader.messages[-1].synced.blocks) == (0, 0)


@virtual_time
async def test_what_changes_under_way_is_sent_between_the_pages() -> None:
    """Each page is exact at its position, and the batches before it come before it."""
    node = FakeNode(slice_slots=2)
    node.store(*[block(number) for number in range(20)])
    reader = Reader(serve(node)).start()

    held = {node.log.head: node.contents()}
    for number in itertools.count(20):
        node.replace(block(number - 20), block(number))
        held[node.log.head] = node.contents()
        await asyncio.sleep(0)
        if "synced" in reader.kinds:
            break
    await asyncio.sleep(0.1)

    first, last = reader.kinds.index("snapshot"), reader.kinds.index("synced")
    assert "batches" in reader.kinds[first:last]
    for message in reader.messages:
        for stored in message.snapshot.stored:
            assert set(reader.fold._blocks(stored)) <= held[message.through]
    assert reader.fold.reasons == ["NO_POSITION"]
    assert reader.fold.view == node.contents()


@virtual_time
async def test_a_block_that_moves_behind_the_walk_is_not_lost() -> None:
    """A block that left a slot not yet walked for one walked already comes as a batch."""
    node = FakeNode(slice_slots=1)
    node.store(*[block(number) for number in range(6)])
    reader = Reader(serve(node)).start()
    await reader.until("snapshot")

    node.remove(block(0))
    node.remove(block(5))
    node.store(block(5))
    await asyncio.sleep(0.1)

    assert node.tiers[0].where[block(5)] == 0
    assert reader.fold.view == node.contents()


@virtual_time
async def test_pages_are_cut_at_the_size_of_a_message() -> None:
    """A slice larger than a message comes as several pages of one position."""
    node = FakeNode(slice_slots=1000)
    node.store(*[block(number, group=number) for number in range(40)])

    reader = Reader(serve(node, message_bytes=500)).start()
    await asyncio.sleep(0.1)

    pages = [raw for raw, kind in zip(reader.raw, reader.kinds, strict=True) if kind == "snapshot"]
    assert node.slices == 1
    assert len(pages) > 5
    assert max(map(len, pages)) < 600
    assert reader.fold.view == node.contents()


@virtual_time
async def test_token_ids_are_in_pages_and_batches_alike() -> None:
    """The FULL view has them live and in the snapshot, the BASIC view in neither."""
    node = FakeNode()
    node.store(block(1, tokens=3))
    full = Reader(serve(node), view=EventView.EVENT_VIEW_FULL).start()
    basic = Reader(serve(node), view=EventView.EVENT_VIEW_BASIC).start()
    await asyncio.sleep(0.1)

    node.store(block(2, tokens=3))
    await asyncio.sleep(0.1)

    assert full.fold.view == node.contents()
    assert {held.tokens for _, held in basic.fold.view} == {()}


@virtual_time
async def test_a_silent_tier_is_named_and_neither_walked_nor_counted() -> None:
    """A follower learns that a tier is SILENT, and gets no page of it."""
    node = FakeNode(TierInfo(0, "gpu0", GPU, SILENT), TierInfo(1, "cpu0", CPU, READY))
    node.tiers[0].put(block(1))
    node.store(block(2), tier=1)

    reader = Reader(serve(node)).start()
    await asyncio.sleep(0.1)

    states = {m.state.tier: m.state.tier_state for m in reader.messages if m.HasField("state")}
    assert states == {"gpu0": SILENT, "cpu0": READY}
    assert reader.fold.view == {("cpu0", block(2))}
    assert reader.messages[-1].synced.blocks == 1


@virtual_time
async def test_a_filtered_snapshot_counts_and_brings_only_what_passes() -> None:
    """Tiers, media and namespaces are held to in states, descriptions, pages and the count."""
    node = FakeNode(TierInfo(0, "gpu0", GPU, READY), TierInfo(1, "cpu0", CPU, READY))
    for tier in (0, 1):
        node.store(block(1, namespace=1), block(2, namespace=2), tier=tier)

    reader = Reader(serve(node), tiers=["cpu0"], namespaces=[space_of(2)]).start()
    await asyncio.sleep(0.1)

    assert reader.kinds == ["reset", "state", "namespace", "snapshot", "synced"]
    assert reader.fold.view == {("cpu0", block(2, namespace=2))}


@virtual_time
async def test_a_namespace_is_described_before_it_is_used() -> None:
    """One that is registered later comes when the log wakes, before its first batch, and once."""
    node = FakeNode()
    reader = Reader(serve(node), namespaces=[space_of(n) for n in (1, 7, 9)]).start()
    await asyncio.sleep(0.1)
    before = len(reader.messages)

    node.register(7)
    node.register(8)
    node.store(block(1, namespace=7))
    node.store(block(2, namespace=7))
    await asyncio.sleep(0.1)
    node.register(9)
    node.log.wake()
    await asyncio.sleep(0.1)

    assert reader.kinds[before:] == ["namespace", "batches", "namespace"]
    assert reader.messages[before].namespace.hash_seed == space_of(7)


@virtual_time
async def test_a_namespace_that_is_new_during_the_walk_is_described_in_time() -> None:
    """Registered and used while a snapshot is sent, it comes before the batch or page with it."""
    node = FakeNode(slice_slots=1)
    node.store(*[block(number) for number in range(10)])
    reader = Reader(serve(node)).start()

    for number in range(3, 9):
        await reader.until_next("snapshot")
        node.register(number)
        node.store(block(number + 100, namespace=number))
    await asyncio.sleep(0.1)

    assert reader.kinds[reader.kinds.index("snapshot") :].count("namespace") == 6
    assert reader.fold.view == node.contents()


@virtual_time
async def test_a_walk_gives_everybody_else_a_turn_after_each_slice() -> None:
    """Also a walk that sends nothing never keeps the loop for longer than one slice."""
    node = FakeNode(slice_slots=1)
    node.store(*[block(number, namespace=2) for number in range(50)])
    turns_between: list[int] = []
    walk = node.snapshot

    def watched(tier: int) -> Iterator[list[Part]]:
        for parts in walk(tier):
            turns_between.append(turns)
            yield parts

    node.snapshot = watched  # type: ignore[method-assign]
    reader = Reader(serve(node), namespaces=[space_of(1)]).start()
    turns = 0
    while "synced" not in reader.kinds:
        turns += 1
        await asyncio.sleep(0)

    assert len(turns_between) == 50
    assert len(set(turns_between)) == 50


@virtual_time
async def test_a_follower_that_falls_out_of_the_log_starts_over_on_the_same_stream() -> None:
    """LAGGED, a snapshot and synced; what was forgotten is neither sent nor missing."""
    node = FakeNode(max_batches=5)
    reader = Reader(serve(node)).start()
    await asyncio.sleep(0.1)

    reader.stall()
    for number in range(50):
        node.store(block(number))
        await asyncio.sleep(0)
    reader.read_on()
    await asyncio.sleep(0.1)

    assert reader.fold.reasons == ["NO_POSITION", "LAGGED"]
    assert reader.fold.view == node.contents()
    assert not reader.ended


@virtual_time
async def test_three_resets_without_synced_end_the_stream() -> None:
    """A follower too slow for any snapshot is sent off, with what to do about it."""
    node = FakeNode(max_batches=2, slice_slots=1)
    node.store(*[block(number) for number in range(20)])
    reader = Reader(serve(node)).start()

    while not reader.ended:
        reader.stall()
        await asyncio.sleep(0)
        for _ in range(4):
            node.clear(space_of(2))
        reader.read_on()
        await asyncio.sleep(0)

    assert reader.fold.reasons == ["NO_POSITION", "LAGGED", "LAGGED"]
    assert "synced" not in reader.kinds
    assert reader.error is not None
    assert reader.error.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert reader.error.reason == "RESET_LIMIT"
    assert reader.error.retry_after
    assert node.followers == 0


@virtual_time
async def test_resets_with_a_synced_between_them_are_not_counted_together() -> None:
    """A follower that lags now and then is never sent off for it."""
    node = FakeNode(max_batches=2)
    reader = Reader(serve(node)).start()

    for _ in range(8):
        await asyncio.sleep(0.1)
        reader.stall()
        for _ in range(9):
            node.clear()
            await asyncio.sleep(0)
        reader.read_on()
    await asyncio.sleep(0.1)

    assert reader.fold.reasons == ["NO_POSITION", *["LAGGED"] * 8]
    assert not reader.ended


@virtual_time
async def test_a_snapshot_that_nobody_reads_gives_its_place_back() -> None:
    """A follower that takes nothing of its snapshot is sent off; one that waits for live is not."""
    node = FakeNode()
    node.store(block(1))
    service = serve(node, stall_timeout=10)
    live = Reader(service).start()
    await asyncio.sleep(0.1)
    live.stall()
    stuck = Reader(service).start()
    stuck.stall()

    await asyncio.sleep(60)

    assert not live.ended
    assert stuck.error is not None
    assert stuck.error.reason == "RESET_LIMIT"
    assert "10 s" in stuck.error.message


@virtual_time
async def test_a_snapshot_that_is_read_slowly_is_let_go_on() -> None:
    """However long it takes, a follower that keeps reading gets to the end."""
    node = FakeNode()
    node.store(*[block(number) for number in range(12)])
    reader = Reader(serve(node, stall_timeout=10, message_bytes=1))
    reader.delay = 9
    reader.start()
    await asyncio.sleep(20)

    for number in range(12, 30):
        node.store(block(number))
    await reader.until("synced", turn=1)

    assert now() > 200
    assert reader.fold.view == node.contents()


@virtual_time
async def test_snapshots_under_way_are_limited() -> None:
    """One too many waits a moment for a place, and is refused if none comes free."""
    node = FakeNode()
    node.store(block(1))
    service = serve(node, max_snapshots=2, heartbeat_interval=1, stall_timeout=10)
    slow = [Reader(service).start() for _ in range(2)]
    for reader in slow:
        reader.stall()
    await asyncio.sleep(0)

    refused = Reader(service).start()
    await asyncio.sleep(1.5)
    patient = Reader(service).start()
    await asyncio.sleep(0.5)
    slow[0].read_on()
    await asyncio.sleep(0.1)

    assert refused.error is not None
    assert refused.error.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "2 followers are being sent a snapshot" in refused.error.message
    assert patient.fold.synced
    assert slow[0].fold.synced


@pytest.mark.parametrize("count", [1, 50])
@virtual_time
async def test_many_followers_at_once_all_get_their_snapshot(count: int) -> None:
    """Followers that all come back together are served in turn, not refused."""
    node = FakeNode(slice_slots=1)
    node.store(*[block(number) for number in range(30)])
    service = serve(node, max_followers=50, max_snapshots=2)

    readers = [Reader(service).start() for _ in range(count)]
    await asyncio.sleep(0.5)

    assert [reader.fold.view == node.contents() for reader in readers] == [True] * count


@virtual_time
async def test_a_long_walk_that_brings_nothing_still_shows_signs_of_life() -> None:
    """While nothing passes, an empty page at least every heartbeat tells that the node is there."""
    node = FakeNode(slice_slots=1)
    node.store(*[block(number, namespace=2) for number in range(50)])
    walk = node.snapshot
    started = now()

    def slow_walk(tier: int) -> Iterator[list[Part]]:
        for parts in walk(tier):
            asyncio.get_running_loop()._jumping.now += 0.3  # type: ignore[attr-defined]
            yield parts

    node.snapshot = slow_walk  # type: ignore[method-assign]
    reader = Reader(serve(node, heartbeat_interval=1), namespaces=[space_of(1)]).start()
    await reader.until("synced")

    gaps = [b - a for a, b in zip(reader.times, reader.times[1:], strict=False)]
    assert now() - started > 10
    assert max(gaps) < 1.5
    assert reader.fold.view == set()
