"""A snapshot tells what the tiers hold while it changes under it."""

import asyncio
import itertools
from collections.abc import Iterator

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
