"""Load leases that are let go of, whatever happens."""

import asyncio
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from kvtier.client import DeadlineError, KvtierError, NodeClient
from kvtier.client.errors import typed
from kvtier.client.proxy.load_leases import LoadLeases
from kvtier.v1.block_pb2 import Lease
from kvtier.v1.result_pb2 import LookupResult
from kvtier.v1.tier_service_pb2 import (
    PrepareLoadRequest,
    PrepareLoadResponse,
    ReleaseLeasesResponse,
    RenewLeasesResponse,
)
from kvtier.wire.errors import Reason, unavailable
from tests.waiting import until

from .fakes import FakeNode, fail
from .messages import FINGERPRINT, block_set


def deadline(message: str) -> KvtierError:
    return typed(grpc.StatusCode.DEADLINE_EXCEEDED, "", message)


async def briefly(_: float) -> None:
    await asyncio.sleep(0.001)


ASKED: Any = ("cpu0", FINGERPRINT, [block_set(1)])


def granted(request: PrepareLoadRequest, seconds: float = 30.0) -> PrepareLoadResponse:
    return PrepareLoadResponse(
        lease=Lease(id=request.lease_id, generation=7),
        ttl=Duration(nanos=int(seconds * 1e9)) if seconds < 1 else Duration(seconds=int(seconds)),
        results=[LookupResult.LOOKUP_RESULT_HIT],
    )


def released(node: FakeNode) -> list[Lease]:
    return [lease for each in node.requests("ReleaseLeases") for lease in each.leases]


async def test_a_lease_whose_answer_nobody_waited_for_is_released(
    node: FakeNode, client: NodeClient
) -> None:
    """The cancelled caller is free at once; closing waits for the release."""
    answer = asyncio.Event()

    async def grant_late(request: PrepareLoadRequest) -> PrepareLoadResponse:
        await answer.wait()
        return granted(request)

    node.on("PrepareLoad", grant_late)
    leases = LoadLeases()
    opening = asyncio.create_task(leases.open(client, *ASKED))
    await until(lambda: node.requests("PrepareLoad"))

    opening.cancel()
    await asyncio.wait([opening], timeout=1)
    cancelled = opening.cancelled()
    answer.set()
    await leases.close()

    assert cancelled
    (request,) = node.requests("PrepareLoad")
    assert released(node) == [Lease(id=request.lease_id, generation=7)]


async def test_a_lease_lives_as_long_as_its_context(node: FakeNode, client: NodeClient) -> None:
    """It is renewed, also after a renewal that failed, and released when the body fails."""
    renewals = [fail(unavailable("busy", Reason.INTERNAL)), lambda _: RenewLeasesResponse()]
    node.on("RenewLeases", *renewals)
    node.on("PrepareLoad", lambda request: granted(request, seconds=0.03))
    leases = LoadLeases()
    answer = await leases.open(client, *ASKED)
    before: list[list[Lease]] = []

    async def fail_inside() -> None:
        async with leases.keeping(client, answer):
            await until(lambda: len(node.requests("RenewLeases")) > 2)
            before.append(released(node))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_inside()

    assert before == [[]]
    assert released(node) == [answer.lease]


async def test_a_cancelled_body_does_not_stop_the_release(
    node: FakeNode, client: NodeClient
) -> None:
    """Not even when it is cancelled once more while the release is under way."""
    node.on("PrepareLoad", granted)
    held = asyncio.Event()

    async def release_late(_: object) -> Any:
        await held.wait()
        return ReleaseLeasesResponse()

    node.on("ReleaseLeases", release_late)
    leases = LoadLeases()

    async def hold() -> None:
        answer = await leases.open(client, *ASKED)
        async with leases.keeping(client, answer):
            entered.set()
            await asyncio.Event().wait()

    entered = asyncio.Event()
    holding = asyncio.create_task(hold())
    await entered.wait()
    holding.cancel()
    await until(lambda: node.requests("ReleaseLeases"))
    holding.cancel()
    await asyncio.wait([holding], timeout=1)
    held.set()
    await leases.close()

    assert holding.cancelled()
    assert len(released(node)) == 1


async def test_a_lease_that_was_granted_unheard_is_taken_back(
    node: FakeNode, client: NodeClient
) -> None:
    """The call is made again by the same id, until the node answers, and the lease released."""
    late = fail(deadline("it took too long"))
    node.on("PrepareLoad", late, late, granted)
    leases = LoadLeases(sleep=briefly)

    with pytest.raises(DeadlineError):
        await leases.open(client, *ASKED)
    await until(lambda: released(node))
    await leases.close()

    ids = {each.lease_id for each in node.requests("PrepareLoad")}
    assert [lease.id for lease in released(node)] == list(ids)


async def test_a_release_that_went_unheard_is_repeated(node: FakeNode, client: NodeClient) -> None:
    """Who let go of the lease does not wait for that."""
    node.on("PrepareLoad", granted)
    node.on("ReleaseLeases", fail(deadline("late")), lambda _: ReleaseLeasesResponse())
    leases = LoadLeases(sleep=briefly)
    answer = await leases.open(client, *ASKED)

    await leases.release(client, answer.lease)
    await until(lambda: len(released(node)) == 2)
    await leases.close()

    assert released(node) == [answer.lease] * 2


async def test_closing_does_not_wait_for_a_node_that_hears_nothing(
    node: FakeNode, client: NodeClient
) -> None:
    """Its lease ends by itself."""
    node.on("PrepareLoad", fail(deadline("late")))
    leases = LoadLeases()
    with pytest.raises(DeadlineError):
        await leases.open(client, *ASKED)

    async with asyncio.timeout(0.4):
        await leases.close()

    assert released(node) == []
