"""A caller that mapped a tier stores and loads by leases alone: no byte crosses a socket."""

from typing import Any

import pytest
from xxhash import xxh3_64_intdigest

from kvtier.client import (
    DataPath,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    Reason,
)
from kvtier.server.services.transfer_service import TransferService
from kvtier.v1.result_pb2 import CompleteResult, LookupResult
from kvtier.v1.tier_service_pb2 import PrepareLoadRequest, PrepareStoreRequest
from kvtier.v1.transfer_service_pb2 import WriteBlocksRequest, WriteBlocksResponse
from kvtier.wire.errors import denied

from .conftest import Follow, Serve
from .mapping import Mapped
from .support import (
    BLOCK_BYTES,
    Serving,
    blocks_of,
    cpu_tier,
    gpu_tier,
    payload,
    payloads,
    run,
    words,
)
from .wire import METHODS, wire


@pytest.fixture
async def node(serve: Serve) -> Serving:
    return await serve(cpu_tier(4))


async def test_what_is_written_in_place_is_stored_and_told_once(
    node: Serving, follow: Follow
) -> None:
    """It is not readable before the completion, and then loads by every way."""
    follower, mine = await follow(node), await Mapped.of(node)
    prepared = await mine.prepare("a", "b")
    checksums = mine.fill(prepared.slots, "a", "b")
    before = await node.look_up("a", "b")

    done = await node.client.complete_store(prepared.lease, checksums=checksums)

    assert before == ["HIT_PENDING", "HIT_PENDING"]
    assert words(CompleteResult, done.results) == ["STORED", "STORED"]
    assert await node.load("a", "b") == payloads("a", "b")
    found = await mine.load("a", "b")
    assert [mine.read(slot) for slot, _ in found.values()] == payloads("a", "b")
    assert [checksum for _, checksum in found.values()] == checksums
    assert [told.what for told in await follower.news()] == ["stored", "stored"]


async def test_slots_are_told_once_for_each_block_to_write(node: Serving) -> None:
    """Neither for those that are there nor twice for one that is named twice."""
    mine = await Mapped.of(node)
    await node.store("a")

    prepared = await mine.prepare("a", "b", "b")
    checksums = mine.fill(prepared.slots, "b")
    done = await node.client.complete_store(prepared.lease, checksums=checksums)

    assert len(prepared.slots) == 1
    assert words(CompleteResult, done.results) == ["NOT_LEASED", "STORED", "STORED"]
    assert await node.load("a", "b") == payloads("a", "b")


async def test_a_load_tells_slots_of_what_is_pinned_alone(node: Serving) -> None:
    """The others have slot and checksum 0."""
    mine = await Mapped.of(node)
    await node.store("a", "b")
    asked = [blocks_of("absent", "b", "a", "b")]

    answer = await node.client.prepare_load("cpu0", node.namespace, asked, mapping=mine.number)

    assert words(LookupResult, answer.results) == ["MISS", "HIT", "HIT", "HIT"]
    assert [mine.read(slot) for slot in answer.slots[1:]] == payloads("b", "a", "b")
    assert answer.slots[0] == answer.checksums[0] == 0
    assert answer.checksums[1] == answer.checksums[3] == xxh3_64_intdigest(payload("b"))


async def test_nobody_else_is_told_slots(node: Serving) -> None:
    """A lease without locate has none."""
    stored = await node.client.prepare_store("cpu0", node.namespace, [run("a")])
    loaded = await node.client.prepare_load("cpu0", node.namespace, [blocks_of("a")])

    assert (list(stored.slots), list(loaded.slots), list(loaded.checksums)) == ([], [], [])


async def test_failed_blocks_are_given_back(node: Serving) -> None:
    """Their checksums are any value; without checksums nothing was written."""
    mine = await Mapped.of(node)
    one, other = await mine.prepare("a", "b"), await mine.prepare("c")
    checksums = mine.fill(one.slots[1:], "b")

    done = await node.client.complete_store(one.lease, checksums=[0, *checksums], failed_blocks=[0])
    nothing = await node.client.complete_store(other.lease)

    assert words(CompleteResult, done.results) == ["FAILED", "STORED"]
    assert words(CompleteResult, nothing.results) == ["NOT_WRITTEN"]
    assert await node.load("a", "b", "c") == [None, payload("b"), None]
    assert await node.gauges() == {"ready": 1}


async def test_blocks_of_one_lease_may_come_both_ways(node: Serving) -> None:
    """What was sent keeps the checksum that was verified, whatever the completion says of it."""
    mine = await Mapped.of(node)
    prepared = await mine.prepare("sent", "placed")
    await node.client.write_blocks(prepared.lease, {0: payload("sent")}, [BLOCK_BYTES, BLOCK_BYTES])
    checksums = mine.fill(prepared.slots[1:], "placed")

    done = await node.client.complete_store(prepared.lease, checksums=[12345, *checksums])

    assert words(CompleteResult, done.results) == ["STORED", "STORED"]
    assert await node.load("sent", "placed") == payloads("sent", "placed")


@pytest.mark.parametrize("count", [1, 3])
async def test_another_number_of_checksums_is_refused_and_may_be_mended(
    node: Serving, count: int
) -> None:
    """The lease stays as it was."""
    mine = await Mapped.of(node)
    prepared = await mine.prepare("a", "b")
    checksums = mine.fill(prepared.slots, "a", "b")

    with pytest.raises(InvalidArgumentError, match=f"checksums holds {count} values.*2 blocks"):
        await node.client.complete_store(prepared.lease, checksums=[1] * count)
    done = await node.client.complete_store(prepared.lease, checksums=checksums)

    assert words(CompleteResult, done.results) == ["STORED", "STORED"]


async def test_checksums_of_a_lease_without_slots_are_refused(node: Serving) -> None:
    """Nobody can have written there."""
    prepared = await node.client.prepare_store("cpu0", node.namespace, [run("a")])

    with pytest.raises(InvalidArgumentError, match=r"holds 1 values.*without locate"):
        await node.client.complete_store(prepared.lease, checksums=[1])


async def test_a_wrong_checksum_is_found_by_the_next_load(node: Serving) -> None:
    """The block is dropped then, and said to be corrupt; its bytes are given to nobody."""
    mine = await Mapped.of(node)
    prepared = await mine.prepare("a")
    mine.fill(prepared.slots, "a")
    await node.client.complete_store(prepared.lease, checksums=[12345])

    assert await node.load("a") == [None]
    assert await node.look_up("a") == ["MISS"]
    assert (await node.tier()).counters.corrupt == 1


@pytest.mark.parametrize("kind", ["Store", "Load"])
@pytest.mark.parametrize("how", ["none", "unknown", "released"])
async def test_slots_are_told_only_to_who_holds_the_lock(
    node: Serving, kind: str, how: str
) -> None:
    """A mapping of an earlier life of the node has another number; nothing is held."""
    await node.store("a")
    mine = await Mapped.of(node)
    number = {"none": 0, "unknown": mine.number + 1, "released": mine.number}[how]
    if how == "released":
        mine.file.close()
    ask: dict[str, Any] = {
        "tier": "cpu0",
        "namespace": node.namespace,
        "lease_id": bytes(16),
        "owner": "me",
        "locate": True,
        "mapping": number,
    }
    requests = {
        "Store": PrepareStoreRequest(runs=[run("b")], **ask),
        "Load": PrepareLoadRequest(blocks=[blocks_of("a")], **ask),
    }

    async with wire(node.endpoint) as raw:
        outcome = await raw.call(METHODS[f"TierService.Prepare{kind}"], requests[kind])

    assert outcome.code == "FAILED_PRECONDITION"
    assert outcome.error is not None
    assert outcome.error.reason == Reason.MAPPING_UNKNOWN
    assert await node.gauges() == {"ready": 1}


async def test_every_mapping_has_a_number_and_a_byte_of_its_own(node: Serving) -> None:
    """And all of them the one file."""
    one, other = [await node.client.map_tier("cpu0") for _ in range(2)]

    assert one.mapping != other.mapping
    assert one.shared_file.lock_offset != other.shared_file.lock_offset
    assert min(one.shared_file.lock_offset, other.shared_file.lock_offset) >= (
        one.shared_file.size_bytes
    )
    assert one.shared_file.cookie == other.shared_file.cookie
    assert one.slot_bytes == other.slot_bytes == BLOCK_BYTES


async def test_what_cannot_be_mapped_is_told_with_what_to_use(serve: Serve) -> None:
    """An emulated GPU tier, and one that does not exist."""
    node = await serve(gpu_tier(1))

    with pytest.raises(FailedPreconditionError, match=r"not mappable, .*WriteBlocks") as refused:
        await node.client.map_tier("gpu0")
    with pytest.raises(NotFoundError):
        await node.client.map_tier("gpu1")

    assert refused.value.reason == Reason.NOT_MAPPABLE


async def test_who_may_not_map_a_tier_uses_a_stream(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a caller does that may use some namespaces only."""

    def deny(_service: TransferService, _request: object) -> None:
        raise denied("use WriteBlocks and ReadBlocks", Reason.NOT_ALLOWED)

    monkeypatch.setattr(TransferService, "map_tier", deny)
    node = await serve()
    async with node.client.blocks("cpu0") as blocks:
        report = await blocks.store(node.namespace, [run(1)], payloads(1))

    assert report.path is DataPath.STREAM
    assert await node.load(1) == payloads(1)


async def test_a_tier_without_slots_can_be_mapped_before_they_are_known(serve: Serve) -> None:
    """Their size is told as 0 until a namespace has fixed it."""
    node = await serve({"name": "cpu0", "medium": "cpu", "capacity": 4096}, register=False)

    assert (await node.client.map_tier("cpu0")).slot_bytes == 0


async def test_an_offer_to_write_blocks_ignores_locate(node: Serving) -> None:
    """Its bytes come through the call: no slot is told, and none is left to a late writer."""
    mine = await Mapped.of(node)
    offer = PrepareStoreRequest(
        tier="cpu0",
        namespace=node.namespace,
        lease_id=bytes(16),
        owner="me",
        runs=[run("a")],
        locate=True,
        mapping=mine.number,
    )

    async with wire(node.endpoint) as raw:
        outcome = await raw.call(
            METHODS["TransferService.WriteBlocks"], WriteBlocksRequest(offer=offer)
        )

    prepared = WriteBlocksResponse.FromString(outcome.answers[0]).prepared
    assert (len(prepared.outcomes), list(prepared.slots)) == (1, [])
    assert await node.gauges() == {}
