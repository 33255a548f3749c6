"""Calls of leases share a stream, and every way in which it fails leaves a call of its own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import grpc
import pytest

from kvtier.client import DeadlineError, ExhaustedError, KvtierError, NodeClient, Reason
from kvtier.client.mapped.streamed import StreamedLeases
from kvtier.v1.block_pb2 import Lease
from kvtier.v1.lease_stream_pb2 import LeaseAnswer, LeaseBlocksRequest, LeaseBlocksResponse
from kvtier.v1.result_pb2 import CompleteResult, LeaseResult
from kvtier.v1.tier_service_pb2 import (
    CompleteStoreResponse,
    PrepareStoreResponse,
    RegisterNamespaceResponse,
    ReleaseLeasesResponse,
)
from kvtier.wire.errors import encode_details, exhausted, not_found, unavailable

from .fakes import FakeNode, play
from .messages import FINGERPRINT, NAMESPACE, block_run

Requests = AsyncIterator[LeaseBlocksRequest]
STORED = CompleteResult.COMPLETE_RESULT_STORED
ALONE = CompleteStoreResponse(results=[STORED])
STREAMED = CompleteStoreResponse(results=[STORED, STORED])


def lease(number: int) -> Lease:
    return Lease(id=bytes([number]) * 16)


def answering(
    outcome: Callable[[Any], dict[str, Any]], together: int = 1
) -> Callable[[Requests], AsyncIterator[LeaseBlocksResponse]]:
    """Answer calls once so many have come, the last of them first."""

    async def handler(requests: Requests) -> AsyncIterator[LeaseBlocksResponse]:
        calls: list[Any] = []
        async for request in requests:
            calls += request.calls
            if len(calls) >= together:
                answers = [LeaseAnswer(number=c.number, **outcome(c)) for c in reversed(calls)]
                calls = []
                yield LeaseBlocksResponse(answers=answers)

    return handler


async def never(requests: Requests) -> AsyncIterator[LeaseBlocksResponse]:
    """Read calls and say nothing."""
    async for _ in requests:
        pass
    yield LeaseBlocksResponse()


@pytest.fixture
async def leases(node: FakeNode, client: NodeClient) -> AsyncIterator[StreamedLeases]:
    streamed = StreamedLeases(client._connection)
    yield streamed
    await streamed.close()


async def test_each_caller_gets_its_own_answer(node: FakeNode, leases: StreamedLeases) -> None:
    """Over one stream, in whatever order the answers come."""
    by_id = {lease(n).id: CompleteStoreResponse(results=[STORED] * n) for n in (1, 2, 3)}
    answer = answering(lambda c: {"complete_store": by_id[c.complete_store.lease.id]}, 3)
    node.on("LeaseBlocks", answer)

    found = await asyncio.gather(*(leases.complete_store(lease(n)) for n in (1, 2, 3)))

    assert found == [by_id[lease(n).id] for n in (1, 2, 3)]
    assert node.names() == ["LeaseBlocks"]


async def test_calls_made_together_share_a_message(node: FakeNode, leases: StreamedLeases) -> None:
    """That is where the cost of a call goes."""
    sizes: list[int] = []

    async def handler(requests: Requests) -> AsyncIterator[LeaseBlocksResponse]:
        async for request in requests:
            sizes.append(len(request.calls))
            answers = [LeaseAnswer(number=c.number, complete_store=STREAMED) for c in request.calls]
            yield LeaseBlocksResponse(answers=answers)

    node.on("LeaseBlocks", handler)
    await leases.complete_store(lease(1))
    await asyncio.gather(*(leases.complete_store(lease(n)) for n in range(2, 7)))

    assert sizes == [1, 5]


async def test_a_refusal_is_the_error_of_a_call_of_its_own(
    node: FakeNode, leases: StreamedLeases
) -> None:
    """Typed, with the node's reason, the time to wait, and the endpoint."""
    full = encode_details(exhausted("full", Reason.TIER_FULL, retry_after=2.0, metadata={"a": "b"}))
    node.on("LeaseBlocks", answering(lambda _: {"error": full}))

    with pytest.raises(ExhaustedError, match="full") as refused:
        await leases.complete_store(lease(1))

    assert (refused.value.reason, refused.value.retry_after) == (Reason.TIER_FULL, 2.0)
    assert refused.value.metadata == {"a": "b", "endpoint": node.endpoint}
    assert node.names() == ["LeaseBlocks"]


async def test_an_error_that_cannot_be_read_is_an_error(
    node: FakeNode, leases: StreamedLeases
) -> None:
    """Of the client's own tree."""
    node.on("LeaseBlocks", answering(lambda _: {"error": b"\xff\xff"}))

    with pytest.raises(KvtierError, match="cannot be read"):
        await leases.complete_store(lease(1))


async def test_an_older_node_is_called_alone() -> None:
    """The stream is tried once."""
    async with FakeNode(without="LeaseBlocks") as old, NodeClient(old.endpoint) as client:
        old.on("CompleteStore", lambda _: ALONE)
        leases = StreamedLeases(client._connection)

        found = [await leases.complete_store(lease(n)) for n in (1, 2, 3)]

        assert found == [ALONE] * 3
        assert leases._alone
        assert old.names() == ["CompleteStore"] * 3


@pytest.mark.parametrize(
    "end", [play(), play(then=unavailable("gone", Reason.DRAINING))], ids=["well", "with an error"]
)
async def test_a_call_without_an_answer_is_made_once_more(
    node: FakeNode, leases: StreamedLeases, end: Any
) -> None:
    """Alone, with the same lease id; the next call opens another stream."""
    answered = answering(lambda _: {"complete_store": STREAMED})
    node.on("LeaseBlocks", end, answered)
    node.on("PrepareStore", lambda request: PrepareStoreResponse(lease=Lease(id=request.lease_id)))

    first = await leases.prepare_store("cpu0", FINGERPRINT, [block_run(1)], lease_id=b"i" * 16)
    second = await leases.complete_store(lease(1))

    assert first.lease.id == b"i" * 16
    assert second == STREAMED
    assert node.names() == ["LeaseBlocks", "PrepareStore", "LeaseBlocks"]


async def test_a_node_that_says_nothing_ends_at_the_deadline(node: FakeNode) -> None:
    """As any call does, and the next call is not worse off."""
    node.on("LeaseBlocks", never)
    async with NodeClient(node.endpoint, timeout=0.2) as client:
        leases = StreamedLeases(client._connection)
        for _ in range(2):
            with pytest.raises(DeadlineError, match=r"did not answer within 0\.2 s"):
                await leases.complete_store(lease(1))
        await leases.close()


async def test_an_unreachable_node_is_told_as_by_any_call() -> None:
    """With its address."""
    async with FakeNode() as gone:
        endpoint = gone.endpoint
    async with NodeClient(endpoint, timeout=2) as client:
        leases = StreamedLeases(client._connection)
        with pytest.raises(KvtierError, match=f"{endpoint} (cannot be reached|did not answer)"):
            await leases.complete_store(lease(1))
        await leases.close()


async def test_closing_lets_calls_under_way_go_alone(
    node: FakeNode, leases: StreamedLeases
) -> None:
    """Nothing hangs, and what is asked afterwards goes alone too."""
    node.on("LeaseBlocks", never)
    node.on("CompleteStore", lambda _: ALONE)
    asking = asyncio.create_task(leases.complete_store(lease(1)))
    while "LeaseBlocks" not in node.names():  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.01)

    await leases.close()
    await leases.close()

    assert await asking == ALONE
    assert await leases.complete_store(lease(2)) == ALONE
    assert node.names().count("LeaseBlocks") == 1


async def test_a_closed_client_ends_calls_under_way(node: FakeNode) -> None:
    """A caller that forgot to close its blocks is not left waiting."""
    node.on("LeaseBlocks", never)
    client = NodeClient(node.endpoint)
    leases = StreamedLeases(client._connection)
    asking = asyncio.create_task(leases.complete_store(lease(1)))
    while "LeaseBlocks" not in node.names():  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.01)

    await client.close()

    with pytest.raises(KvtierError, match="is closed"):
        await asking


async def test_connections_that_are_left_take_their_stream_along(
    node: FakeNode, client: NodeClient, leases: StreamedLeases
) -> None:
    """The next call opens one over the new ones; a call under way is answered where it is."""
    release = asyncio.Event()

    async def slow(requests: Requests) -> AsyncIterator[LeaseBlocksResponse]:
        async for request in requests:
            await release.wait()
            number = request.calls[0].number
            yield LeaseBlocksResponse(answers=[LeaseAnswer(number=number, complete_store=ALONE)])

    node.on("LeaseBlocks", slow, answering(lambda _: {"complete_store": STREAMED}))
    first = asyncio.create_task(leases.complete_store(lease(1)))
    while not node.names():  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.01)
    connection = client._connection

    connection.leave(connection.link)
    second = await leases.complete_store(lease(2))
    release.set()

    assert (second, await first) == (STREAMED, ALONE)
    assert len({peer for _, peer in node.peers}) == 2


async def test_a_forgotten_namespace_is_registered_again(
    node: FakeNode, client: NodeClient, leases: StreamedLeases
) -> None:
    """As by a call of its own: the node has started anew."""
    node.on("RegisterNamespace", lambda _: RegisterNamespaceResponse(fingerprint=FINGERPRINT))
    await client.register_namespace(NAMESPACE)
    unknown = encode_details(not_found("never heard of", Reason.NAMESPACE_UNKNOWN))
    outcomes: Iterator[dict[str, Any]] = iter(
        [{"error": unknown}, {"prepare_store": PrepareStoreResponse()}]
    )
    node.on("LeaseBlocks", answering(lambda _: next(outcomes)))

    await leases.prepare_store("cpu0", FINGERPRINT, [block_run(1)])

    assert node.names() == ["RegisterNamespace", "LeaseBlocks", "RegisterNamespace"]


async def test_an_answer_of_another_kind_is_refused(node: FakeNode, leases: StreamedLeases) -> None:
    """A node that mixes calls up is found out."""
    other = ReleaseLeasesResponse(results=[LeaseResult.LEASE_RESULT_OK])
    node.on("LeaseBlocks", answering(lambda _: {"release_leases": other}))

    with pytest.raises(KvtierError, match="release_leases to a call of complete_store") as refused:
        await leases.complete_store(lease(1))

    assert refused.value.code is grpc.StatusCode.INTERNAL


async def test_a_caller_that_gives_up_leaves_the_others(
    node: FakeNode, leases: StreamedLeases
) -> None:
    """A cancelled call takes neither the stream nor its neighbour's answer along."""
    node.on("LeaseBlocks", answering(lambda _: {"complete_store": STREAMED}, together=2))
    gives_up = asyncio.create_task(leases.complete_store(lease(1)))
    await asyncio.sleep(0.05)
    gives_up.cancel()

    assert await leases.complete_store(lease(2)) == STREAMED
    with pytest.raises(asyncio.CancelledError):
        await gives_up
    assert node.names() == ["LeaseBlocks"]
