"""One absent member of a request, or of an event, is told and does not stop the others."""

import pytest

from kvtier.client import BlockIndex
from kvtier.v1.block_pb2 import Lease, RemovalReason
from kvtier.v1.event_service_pb2 import (
    BlockRemoved,
    BlockStored,
    EventBatch,
    EventBatches,
    Reset,
    SnapshotPage,
    Synced,
    WatchEventsResponse,
)
from kvtier.v1.result_pb2 import DeleteResult, LeaseResult, LookupResult, ReadResult
from kvtier.wire.namespaces import fingerprint

from .conftest import Serve
from .folding import listed
from .following import following
from .support import (
    block_hash,
    blocks_of,
    cpu_tier,
    gpu_tier,
    hash_set,
    hashes,
    namespace,
    payload,
    words,
)


@pytest.mark.parametrize("order", ["AMB", "MAB", "ABM", "MAMBM"])
async def test_a_delete_goes_on_past_what_is_absent(serve: Serve, order: str) -> None:
    """The others are gone, the absent one is told so, and events speak of the others only."""
    node = await serve()
    await node.store("A", "B", "C")
    async with following(node.endpoint) as follower:
        answer = await node.client.delete(node.namespace, [blocks_of(*order)])
        await follower.settle(node.client)

    expected = ["NOT_FOUND" if letter == "M" else "DELETED" for letter in order]
    assert words(DeleteResult, answer.tiers[0].results) == expected
    removed = {e.block_hash for e in follower.fold.told if e.what == "removed"}
    assert removed == hash_set("AB")
    assert {e.reason for e in follower.fold.told} == {"DELETED"}
    assert follower.fold.view == await listed(node.client)
    assert await node.held() == hash_set("C")


async def test_a_delete_takes_each_tier_as_it_is(serve: Serve) -> None:
    """A block that only one tier has is deleted there and told absent by the other."""
    node = await serve(gpu_tier(4), cpu_tier(4))
    await node.store("A", tier="gpu0")
    await node.store("B", tier="cpu0")
    async with following(node.endpoint) as follower:
        answer = await node.client.delete(node.namespace, [blocks_of("A", "M", "B")])
        await follower.settle(node.client)

    told = {each.tier: words(DeleteResult, each.results) for each in answer.tiers}
    assert told == {
        "gpu0": ["DELETED", "NOT_FOUND", "NOT_FOUND"],
        "cpu0": ["NOT_FOUND", "NOT_FOUND", "DELETED"],
    }
    assert follower.fold.view == {}


async def test_every_call_on_blocks_answers_for_each(serve: Serve) -> None:
    """Pins, loads, touches and lookups serve the members that are there."""
    node = await serve()
    await node.store("A", "B")
    blocks = [blocks_of("A", "M", "B")]

    pinned = await node.client.prepare_load("cpu0", node.namespace, blocks)
    loaded = await node.client.load("cpu0", node.namespace, blocks)
    touched = await node.client.touch(node.namespace, blocks)
    found = await node.look_up("A", "M", "B")

    assert words(LookupResult, pinned.results) == ["HIT", "MISS", "HIT"]
    assert list(loaded.payloads) == [payload("A"), None, payload("B")]
    assert words(ReadResult, loaded.results) == ["UNSPECIFIED", "MISS", "UNSPECIFIED"]
    assert list(touched.tier_masks) == [1, 0, 1]
    assert found == ["HIT", "MISS", "HIT"]
    assert await node.gauges() == {"ready": 2, "leased": 2}


async def test_an_unknown_lease_does_not_stop_the_release_of_others(serve: Serve) -> None:
    """Each lease of a release or renewal has its own result."""
    node = await serve()
    await node.store("A", "B")
    one = (await node.client.prepare_load("cpu0", node.namespace, [blocks_of("A")])).lease
    two = (await node.client.prepare_load("cpu0", node.namespace, [blocks_of("B")])).lease
    leases = [one, Lease(id=b"u" * 16, generation=1), two]

    renewed = await node.client.renew_leases(leases, 5)
    released = await node.client.release_leases(leases)

    assert words(LeaseResult, renewed.results) == ["OK", "NOT_FOUND", "OK"]
    assert words(LeaseResult, released.results) == ["OK", "NOT_FOUND", "OK"]
    assert await node.gauges() == {"ready": 2}


def message(after: int, through: int, **kind: object) -> WatchEventsResponse:
    return WatchEventsResponse(node_id="n", epoch=1, after=after, through=through, **kind)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ["AMB", "MAB", "ABM"])
@pytest.mark.parametrize("synced", [True, False], ids=["live", "during a snapshot"])
def test_an_index_removes_what_it_knows_of_a_removal(order: str, synced: bool) -> None:
    """A removal that names a block which the index never saw takes the others all the same."""
    where = {"tier": "cpu0", "namespace": fingerprint(namespace())}
    stored = BlockStored(**where, start_positions=[0], block_hashes=hashes(*"ABC"))  # type: ignore[arg-type]
    removed = BlockRemoved(
        **where,  # type: ignore[arg-type]
        reason=RemovalReason.REMOVAL_REASON_EVICTED,
        block_hashes=hashes(*order),
    )
    batch = EventBatches(batches=[EventBatch(sequence=1, removed=[removed])])
    end = [message(0, 0, synced=Synced(blocks=3)), message(0, 1, batches=batch)]
    if not synced:
        end = [message(0, 1, batches=batch), message(1, 1, synced=Synced(blocks=1))]
    index = BlockIndex()

    for each in (
        message(0, 0, reset=Reset()),
        message(0, 0, namespace=namespace()),
        message(0, 0, snapshot=SnapshotPage(stored=[stored])),
        *end,
    ):
        index.apply(each)

    assert {key.block_hash for key in index.blocks("n", "cpu0")} == {block_hash("C")}
