"""Writing blocks: by lease, or as an offer in one call."""

import pytest

from kvtier.v1.removal_pb2 import ClearTierRequest
from kvtier.v1.result_pb2 import CompleteResult, StoreOutcome
from kvtier.v1.tier_service_pb2 import (
    ReleaseLeasesRequest,
)
from kvtier.v1.transfer_service_pb2 import WriteBlocksRequest
from kvtier.wire.errors import KvtierError, Reason
from tests.contract.support import cpu_tier, payload, payloads, run, words

from .conftest import MakeNode
from .support import TIER, LocalNode, at_once
from .transferring import Upload, data, part, settle, write


async def test_blocks_of_an_offer_are_readable_as_soon_as_each_is_whole(node: LocalNode) -> None:
    """A block need not wait for the end of the call."""
    upload = Upload(node.transfers, WriteBlocksRequest(offer=node.offer(run("a", "b"))))

    await upload.send(data(0, payload("a")))

    assert node.look_up("a", "b") == ["HIT", "HIT_PENDING"]
    assert await upload.end() == {0: "STORED", 1: "INCOMPLETE"}
    assert node.look_up("a", "b") == ["HIT", "MISS"]
    assert node.gauges() == {"ready": 1, "free": 3}


async def test_bytes_with_the_offer_are_answered_with_it(node: LocalNode) -> None:
    """Blocks that come with the offer are answered in one message with the offer's answer."""
    request = WriteBlocksRequest(offer=node.offer(run("a", "b")))
    request.MergeFrom(data(0, *payloads("a", "b")))

    upload = await write(node.transfers, request)

    (answer,) = upload.answers
    assert words(StoreOutcome, answer.prepared.outcomes) == ["WRITE", "WRITE"]
    assert upload.results() == {0: "STORED", 1: "STORED"}


async def test_an_offer_is_answered_before_more_is_awaited(node: LocalNode) -> None:
    """A caller that sends half a block with its offer, and waits for the answer, gets it."""
    request = WriteBlocksRequest(offer=node.offer(run("a")))
    request.MergeFrom(part(0, payload("a"), 0, 10))
    upload = Upload(node.transfers, request)

    await settle()

    assert [answer.HasField("prepared") for answer in upload.answers] == [True]
    await upload.send(part(0, payload("a"), 10, 64))
    assert await upload.end() == {0: "STORED"}


async def test_a_block_named_twice_is_answered_twice(node: LocalNode) -> None:
    """An offer with a duplicate stores it once, and tells of both places."""
    request = WriteBlocksRequest(offer=node.offer(run("a", "b", "a"), run("b")))
    request.MergeFrom(data(0, payload("a")))

    upload = await write(node.transfers, request)

    assert upload.results() == {0: "STORED", 2: "STORED", 1: "INCOMPLETE", 3: "INCOMPLETE"}
    assert node.gauges() == {"ready": 1, "free": 3}


async def test_a_block_named_twice_is_answered_twice_under_a_lease(node: LocalNode) -> None:
    """Writing by lease tells of every place that its answer called WRITE."""
    lease, answer = node.prepare(run("a", "b", "a"))

    upload = await write(
        node.transfers,
        WriteBlocksRequest(lease=lease.reference()),
        data(0, *payloads("a", "b", "a")),
    )

    assert words(StoreOutcome, answer.outcomes) == ["WRITE"] * 3
    assert upload.results() == {0: "WRITTEN", 1: "WRITTEN", 2: "WRITTEN"}


async def test_a_block_sent_again_never_reaches_a_slot_that_was_given_away(
    make_node: MakeNode,
) -> None:
    """Once a block is stored, its call has no hand in the slot, whoever it is given to."""
    node = make_node(cpu_tier(2))
    upload = Upload(node.transfers, WriteBlocksRequest(offer=node.offer(run("a", "b"))))
    await upload.send(data(0, payload("a")))
    other, _ = node.prepare(run("c"))
    assert node.look_up("a", "c") == ["MISS", "HIT_PENDING"], "c took the room of a"

    await upload.send(data(0, payload("a")))

    assert words(CompleteResult, node.complete(other).results) == ["NOT_WRITTEN"]
    assert await upload.end() == {0: "STORED", 1: "INCOMPLETE"}


async def test_a_spoilt_block_of_an_offer_is_given_back(node: LocalNode) -> None:
    """Bytes that do not match their checksum are never readable, and the others are."""
    request = WriteBlocksRequest(offer=node.offer(run("a", "b")))

    upload = await write(
        node.transfers, request, data(0, payload("a"), spoilt=True), data(1, payload("b"))
    )

    assert upload.results() == {0: "CORRUPT", 1: "STORED"}
    assert node.look_up("a", "b") == ["MISS", "HIT"]
    assert node.gauges() == {"ready": 1, "free": 3}


async def test_a_spoilt_block_under_a_lease_may_be_written_again(node: LocalNode) -> None:
    """A lease lives on after a block came spoilt."""
    lease, _ = node.prepare(run("a"))
    by_lease = WriteBlocksRequest(lease=lease.reference())

    first = await write(node.transfers, by_lease, data(0, payload("a"), spoilt=True))
    second = await write(node.transfers, by_lease, data(0, payload("a")))

    assert [first.results(), second.results()] == [{0: "CORRUPT"}, {0: "WRITTEN"}]


async def test_a_caller_that_vanishes_leaves_nothing_of_an_offer(node: LocalNode) -> None:
    """What was whole stays; the rest is given back at once."""
    upload = Upload(node.transfers, WriteBlocksRequest(offer=node.offer(run("a", "b", "c"))))
    await upload.send(data(0, payload("a")), part(1, payload("b"), 0, 10))

    await upload.vanish()

    assert node.look_up("a", "b", "c") == ["HIT", "MISS", "MISS"]
    assert node.gauges() == {"ready": 1, "free": 3}
    assert len(node.node.leases) == 0
    assert node.node.transfers == 0


async def test_an_offer_in_one_call_is_completed_by_the_call_alone(node: LocalNode) -> None:
    """A completion after the call is refused, and not answered with results that never were."""
    upload = await write(node.transfers, WriteBlocksRequest(offer=node.offer(run("a"))))
    lease = node.node.leases
    assert len(lease) == 0

    with pytest.raises(KvtierError, match="was completed") as error:
        node.complete_by(upload.answers[0].prepared.lease)

    assert error.value.reason == Reason.LEASE_ENDED


async def test_the_lease_id_of_an_offer_serves_one_call(node: LocalNode) -> None:
    """A call that repeats an id is refused: its bytes could not be told from the first one's."""
    offer = node.offer(run("a"))
    await write(node.transfers, WriteBlocksRequest(offer=offer), data(0, payload("a")))

    with pytest.raises(KvtierError) as error:
        await write(node.transfers, WriteBlocksRequest(offer=offer), data(0, payload("a")))

    assert (error.value.code.name, error.value.reason) == (
        "FAILED_PRECONDITION",
        Reason.LEASE_REUSED,
    )
    assert node.node.transfers == 0


@pytest.mark.parametrize("force", [False, True])
async def test_a_clear_ends_an_offer_that_is_under_way(node: LocalNode, force: bool) -> None:
    """After a clear, nothing that was offered before it becomes readable."""
    upload = Upload(node.transfers, WriteBlocksRequest(offer=node.offer(run("a", "b"))))
    await upload.send(data(0, payload("a")), part(1, payload("b"), 0, 10))

    at_once(node.tiers.clear_tier(ClearTierRequest(tier=TIER, force=force)))
    await upload.send(part(1, payload("b"), 10, 64))

    with pytest.raises(KvtierError, match="ended while"):
        await upload.task
    assert node.look_up("a", "b") == ["MISS", "MISS"]
    assert node.gauges() == {"free": 4}


async def test_a_caller_that_ends_after_its_offer_expired_is_told_so(node: LocalNode) -> None:
    """A call that stored less than was offered never ends as if all were well."""
    upload = Upload(node.transfers, WriteBlocksRequest(offer=node.offer(run("a", "b"))))
    await upload.send(data(0, payload("a")))
    node.clock.advance(30)
    node.node.expire_leases()

    with pytest.raises(KvtierError, match="ended while"):
        await upload.end()

    assert upload.results() == {0: "STORED"}


async def test_an_offer_that_stands_still_expires(node: LocalNode) -> None:
    """A caller that stays connected and sends nothing holds its slots for the time to live."""
    upload = Upload(node.transfers, WriteBlocksRequest(offer=node.offer(run("a", "b"))))
    await upload.send(data(0, payload("a")))
    node.clock.advance(30)
    node.node.expire_leases()

    await upload.send(data(1, payload("b")))

    with pytest.raises(KvtierError, match="ended while"):
        await upload.task
    assert node.gauges() == {"ready": 1, "free": 3}


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (part(0, payload("a"), 10, 64), "goes on at offset 10; it must go on at 0"),
        (WriteBlocksRequest(offset=64, data=b"more"), "offset is 64"),
        (data(2, payload("a")), "reaches block 2"),
        (data(0, *payloads("a", "b", "c")), "reaches block 2"),
        (WriteBlocksRequest(data=payload("a")), "1 blocks end within the message"),
        (WriteBlocksRequest(checksums=[1]), "0 blocks end within the message"),
    ],
    ids=["gap", "beyond the block", "beyond the offer", "too much", "no checksum", "no data"],
)
async def test_data_that_does_not_fit_is_refused(
    node: LocalNode, message: WriteBlocksRequest, told: str
) -> None:
    """A broken stream ends with what was wrong; nothing of it is readable."""
    first = WriteBlocksRequest(offer=node.offer(run("a", "b")))

    with pytest.raises(KvtierError, match=told) as error:
        await write(node.transfers, first, message)

    assert error.value.code.name == "INVALID_ARGUMENT"
    assert node.gauges() == {"free": 4}
    assert node.batches() == []


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [WriteBlocksRequest()],
        [data(0, payload("a"))],
    ],
    ids=["nothing", "empty", "data only"],
)
async def test_a_call_without_a_target_is_refused(
    node: LocalNode, messages: list[WriteBlocksRequest]
) -> None:
    """The first message says what is written."""
    with pytest.raises(KvtierError, match="neither a lease nor an offer"):
        await write(node.transfers, *messages)


async def test_a_second_target_is_refused(node: LocalNode) -> None:
    """One call writes to one lease."""
    first, second = (node.prepare(run(block))[0] for block in "ab")

    with pytest.raises(KvtierError, match="only the first message"):
        await write(
            node.transfers,
            WriteBlocksRequest(lease=first.reference()),
            WriteBlocksRequest(lease=second.reference()),
        )


async def test_transfers_have_a_limit_that_ended_ones_do_not_count_for(
    make_node: MakeNode,
) -> None:
    """Past the limit a call is refused, until one that is under way ends."""
    node = make_node(limits={"transfers": 1})
    waiting = Upload(node.transfers, WriteBlocksRequest(offer=node.offer(run("a"))))
    await settle()

    with pytest.raises(KvtierError) as error:
        await write(node.transfers, WriteBlocksRequest(offer=node.offer(run("b"))))
    await waiting.vanish()
    after = await write(
        node.transfers, WriteBlocksRequest(offer=node.offer(run("b"))), data(0, payload("b"))
    )

    assert error.value.reason == Reason.TRANSFER_LIMIT
    assert error.value.retry_after
    assert after.results() == {0: "STORED"}


async def test_a_released_lease_takes_no_more_bytes(node: LocalNode) -> None:
    """A release in the middle of a write is the end of it."""
    lease, _ = node.prepare(run("a", "b"))
    upload = Upload(node.transfers, WriteBlocksRequest(lease=lease.reference()))
    await upload.send(data(0, payload("a")))

    node.tiers.release_leases(ReleaseLeasesRequest(owner=lease.owner))
    await upload.send(data(1, payload("b")))

    with pytest.raises(KvtierError, match="ended while"):
        await upload.task
    assert node.gauges() == {"free": 4}
