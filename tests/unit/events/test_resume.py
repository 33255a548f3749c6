"""A position that the log still holds is gone on from; any other starts over."""

import asyncio

import pytest

from kvtier.server.events.source import TierInfo
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import NodePosition

from .fakes import CPU, EPOCH, GPU, READY, FakeNode, block, space_of
from .fold import Fold
from .reader import Reader, serve
from .virtual_time import virtual_time


def _node() -> FakeNode:
    """Return a node that stored ten blocks and holds the last four batches."""
    node = FakeNode(max_batches=4)
    for number in range(10):
        node.store(block(number))
    return node


def _reader(node: FakeNode, sequence: int, epoch: int = EPOCH) -> Reader:
    position = NodePosition(node_id="node-a", position=Position(epoch=epoch, sequence=sequence))
    reader = Reader(serve(node), positions=[position])
    reader.fold = _fold_of(node, sequence)
    return reader.start()


def _fold_of(node: FakeNode, sequence: int) -> Fold:
    """Return the view of a follower that applied so many of the node's stores."""
    fold = Fold()
    fold.view = {("cpu0", block(number)) for number in range(min(sequence, 10))}
    fold.synced, fold.through, fold._epoch = True, sequence, EPOCH
    return fold


@pytest.mark.parametrize("sequence", [6, 7, 9, 10])
@virtual_time
async def test_a_held_position_is_confirmed_and_gone_on_from(sequence: int) -> None:
    """From the oldest held position to the head: synced there, then exactly what is missing."""
    node = _node()

    reader = _reader(node, sequence)
    await asyncio.sleep(0.1)

    synced = next(m for m in reader.messages if m.HasField("synced"))
    assert (synced.after, synced.through) == (sequence, sequence)
    assert reader.fold.reasons == []
    assert reader.fold.view == node.contents()
    assert reader.fold.through == 10


@pytest.mark.parametrize(
    ("sequence", "epoch", "reason"),
    [
        (5, EPOCH, "COMPACTED"),
        (0, EPOCH, "COMPACTED"),
        (11, EPOCH, "AHEAD_OF_HEAD"),
        (2**64 - 1, EPOCH, "AHEAD_OF_HEAD"),
        (10, EPOCH + 1, "EPOCH_CHANGED"),
        (0, 2**64 - 1, "EPOCH_CHANGED"),
    ],
)
@virtual_time
async def test_any_other_position_gets_a_reset_that_says_why(
    sequence: int, epoch: int, reason: str
) -> None:
    """Just outside the held range, or of another log: one reset, one snapshot, one synced."""
    node = _node()

    reader = _reader(node, sequence, epoch)
    await asyncio.sleep(0.1)

    assert reader.kinds[0] == "reset"
    assert reader.fold.reasons == [reason]
    assert reader.kinds.count("synced") == 1
    assert reader.fold.view == node.contents()


@virtual_time
async def test_a_position_before_the_first_batch_is_held_while_nothing_is_forgotten() -> None:
    """Position 0 of a log that forgot nothing is a position like any other."""
    node = FakeNode()
    node.store(block(1))

    reader = _reader(node, 0)
    await asyncio.sleep(0.1)

    assert reader.fold.reasons == []
    assert reader.fold.view == node.contents()


@virtual_time
async def test_a_quiet_node_confirms_its_head() -> None:
    """A position at the head of a log without batches is confirmed with the count of blocks."""
    node = FakeNode()

    reader = _reader(node, 0)
    await asyncio.sleep(0.1)

    assert reader.kinds == ["state", "namespace", "namespace", "synced"]


@pytest.mark.parametrize("namespaces", [(), (1,), (2,)])
@virtual_time
async def test_a_confirmed_position_tells_the_blocks_of_then(namespaces: tuple[int, ...]) -> None:
    """Whatever was stored, removed or cleared since, synced counts what there was then."""
    node = FakeNode(TierInfo(0, "gpu0", GPU, READY), TierInfo(1, "cpu0", CPU, READY))
    reader = Reader(serve(node), namespaces=[space_of(n) for n in namespaces]).start()
    for tier in (0, 1):
        node.store(*[block(n, namespace=1 + n % 2) for n in range(5)], tier=tier)
    await asyncio.sleep(0.1)
    await reader.leave()
    at = reader.fold.through

    node.remove(block(0), tier=1)
    node.clear(space_of(2), tier=1)
    node.store(block(10), block(11, namespace=2), tier=1)
    node.clear(tier=1)
    node.clear(tier=1)
    node.clear(space_of(2), tier=0)
    node.store(block(12, namespace=2), tier=0)
    reader.messages.clear()
    reader.start()
    await asyncio.sleep(0.1)

    synced = [(m.through, m.synced.blocks) for m in reader.messages if m.HasField("synced")]
    assert synced == [(at, {(): 10, (1,): 6, (2,): 4}[namespaces])]
    wanted = {space_of(n) for n in namespaces or (1, 2)}
    assert reader.fold.view == {(t, b) for t, b in node.contents() if b.namespace in wanted}


@virtual_time
async def test_a_follower_that_comes_and_goes_sees_each_batch_once() -> None:
    """Two hundred connections, each from the last position, record every sequence in order."""
    node = FakeNode()
    fold, seen = Fold(), []

    for round_ in range(200):
        reader = Reader(serve(node), fold=fold).start()
        for _ in range(round_ % 5):
            node.store(block(round_))
            node.remove(block(round_))
            await asyncio.sleep(0)
        await asyncio.sleep(0.001 * (round_ % 4))
        await reader.leave()
        for message in reader.messages:
            seen += [batch.sequence for batch in message.batches.batches]

    assert fold.reasons == ["NO_POSITION"]
    assert seen == list(range(seen[0], fold.through + 1))
    assert len(seen) > 700
