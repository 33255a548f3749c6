"""Calls are counted by method and outcome, and nothing that callers send becomes a label."""

import asyncio
import re
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from kvtier import server
from kvtier.client import ExhaustedError, InvalidArgumentError, NotFoundError
from kvtier.server.config import LimitsConfig
from kvtier.v1.event_service_pb2 import WatchEventsRequest
from kvtier.v1.listing_pb2 import ListBlocksRequest
from kvtier.v1.tier_service_pb2 import PrepareLoadRequest
from tests.waiting import until

from .conftest import Serve
from .raw_calls import raw
from .scraping import metrics_come_to, scrape
from .support import blocks_of, cpu_tier, namespace

SOURCES = Path(server.__path__[0])
METRICS = "127.0.0.1:0"
TIER_SERVICE = "kvtier.v1.TierService"
REFLECTION = "grpc.reflection.v1alpha.ServerReflection"


async def test_calls_are_counted_by_how_they_end(serve: Serve) -> None:
    """Each call is begun once, and ends once under the name of its code."""
    node = await serve(cpu_tier(4), metrics_listen=METRICS)
    await node.look_up("A")
    with pytest.raises(InvalidArgumentError):
        await node.client.list_blocks_page(ListBlocksRequest(page_token=b"x"))
    with pytest.raises(NotFoundError):
        await node.client.clear("none")

    metrics = await scrape(node.server.serving.observing.metrics_address)

    unary = {"grpc_service": TIER_SERVICE, "grpc_type": "unary"}

    def ended(method: str) -> dict[str, float]:
        codes = metrics.of("grpc_server_handled_total", grpc_method=method, **unary)
        return {code: count for code, count in codes.items() if count}

    assert ended("LookupBlocks") == {"OK": 1}
    assert ended("ListBlocks") == {"INVALID_ARGUMENT": 1}
    assert ended("ClearTier") == {"NOT_FOUND": 1}
    lookups = {"grpc_method": "LookupBlocks", **unary}
    assert metrics.value("grpc_server_started_total", **lookups) == 1
    assert metrics.value("grpc_server_handling_seconds_count", **lookups) == 1
    assert metrics.value("grpc_server_handling_seconds_bucket", **lookups, le="+Inf") == 1
    assert 0 < metrics.value("grpc_server_handling_seconds_sum", **lookups) < 10


async def test_a_stream_is_in_flight_until_its_caller_leaves(serve: Serve) -> None:
    """Then it has ended as CANCELLED; how long a stream lasted is not measured."""
    node = await serve(cpu_tier(4), metrics_listen=METRICS)
    address = node.server.serving.observing.metrics_address
    labels = {"grpc_service": "kvtier.v1.EventService", "grpc_method": "WatchEvents"}
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        watch: Any = channel.unary_stream(
            "/kvtier.v1.EventService/WatchEvents",
            request_serializer=WatchEventsRequest.SerializeToString,
        )(WatchEventsRequest())
        await watch.read()
        during = await scrape(address)
        watch.cancel()
        after = await metrics_come_to(
            address, lambda found: not found.value("kvtier_rpcs_in_flight", **labels)
        )

    assert during.value("kvtier_rpcs_in_flight", **labels) == 1
    codes = after.of("grpc_server_handled_total", grpc_type="server_stream", **labels)
    assert {code for code, count in codes.items() if count} == {"CANCELLED"}
    streams = {"grpc_type": "server_stream", **labels}
    assert after.total("grpc_server_handling_seconds_count", **streams) == 0


async def test_a_call_whose_time_is_over_is_no_call_that_was_left(
    serve: Serve,
) -> None:
    """A deadline that passes while the server works is counted as such."""
    node = await serve(cpu_tier(4), metrics_listen=METRICS)
    address = node.server.serving.observing.metrics_address
    async with node.node.turns.of(b"\1" * 16), grpc.aio.insecure_channel(node.endpoint) as channel:
        call = raw(channel, "PrepareLoad")
        request = PrepareLoadRequest(lease_id=b"\1" * 16).SerializeToString()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(request, timeout=0.2)
        metrics = await metrics_come_to(
            address,
            lambda found: not found.total("kvtier_rpcs_in_flight", grpc_method="PrepareLoad"),
        )

    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    handled = {"grpc_method": "PrepareLoad", "grpc_code": "DEADLINE_EXCEEDED"}
    assert metrics.total("grpc_server_handled_total", **handled) == 1


async def test_nothing_that_callers_send_becomes_a_name_or_a_label(serve: Serve) -> None:
    """Strange methods, tiers, owners and namespaces leave exactly the series of the start."""
    node = await serve(cpu_tier(64), metrics_listen=METRICS, register=False)
    address = node.server.serving.observing.metrics_address
    before = await scrape(address)
    for number in range(5):
        await node.client.register_namespace(namespace(f"model-{number}"))
        with pytest.raises(NotFoundError):
            await node.client.clear(f"tier-{number}")
    await node.client.register_namespace(namespace())
    await node.store("A", "B")
    await node.client.pin("cpu0", node.namespace, [blocks_of("A")], owner="me {\"}'")
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        for method in ("Guess", "/no.such/Thing", "getnode"):
            with pytest.raises(grpc.aio.AioRpcError):
                await raw(channel, method)(b"")
        for number in range(20):
            with pytest.raises(grpc.aio.AioRpcError):
                await raw(channel, "LookupBlocks")(
                    b"\xff", metadata=((f"x-header-{number}", "text"),)
                )

    after = await scrape(address)

    assert after.series.keys() == before.series.keys()
    assert after.families.keys() == before.families.keys()
    refused = {"grpc_method": "LookupBlocks", "grpc_code": "INVALID_ARGUMENT"}
    assert after.total("grpc_server_handled_total", **refused) == 20


def named_by_refusals() -> set[str]:
    """The limits that the server's code names as it refuses."""
    told = "".join(path.read_text() for path in SOURCES.rglob("*.py"))
    return set(re.findall(r'over_limit\(\s*"(\w+)"', told))


async def test_every_limit_is_there_from_the_start(serve: Serve) -> None:
    """At 0, so that the first refusal is seen to be one more."""
    node = await serve(cpu_tier(4), metrics_listen=METRICS, limits={"namespaces": 1})
    address = node.server.serving.observing.metrics_address
    before = (await scrape(address)).of("kvtier_limited_calls_total")
    with pytest.raises(ExhaustedError):
        await node.client.register_namespace(namespace("another"))

    after = (await scrape(address)).of("kvtier_limited_calls_total")

    assert named_by_refusals() <= before.keys() <= LimitsConfig.model_fields.keys()
    assert set(before.values()) == {0}
    assert after == before | {"namespaces": 1}


async def test_a_loop_that_is_held_up_shows(serve: Serve) -> None:
    """Lag is sampled all the time; a loop that stands still for a moment is seen to."""
    node = await serve(cpu_tier(4), metrics_listen=METRICS)
    lag = node.server.serving.observing._lag
    async with asyncio.timeout(10):
        await until(lambda: sum(lag._samples._counts))
    loop = asyncio.get_running_loop()
    done = loop.time() + 0.6
    while loop.time() < done:
        pass

    metrics = await metrics_come_to(
        node.server.serving.observing.metrics_address,
        lambda found: found["kvtier_event_loop_lag_seconds_sum"] > 0.25,
    )

    buckets = metrics.of("kvtier_event_loop_lag_seconds_bucket")
    assert buckets["+Inf"] > buckets["0.25"]


async def test_questions_about_services_are_calls_like_others(serve: Serve) -> None:
    """They are answered and counted where both reflection and metrics are on."""
    node = await serve(cpu_tier(4), metrics_listen=METRICS, reflection=True)
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        ask: Any = ServerReflectionStub(channel).ServerReflectionInfo
        asked = iter([ServerReflectionRequest(list_services="")])
        answers = [answer async for answer in ask(asked, timeout=10)]

    metrics = await scrape(node.server.serving.observing.metrics_address)

    services = {each.name for each in answers[0].list_services_response.service}
    assert {TIER_SERVICE, "grpc.health.v1.Health", REFLECTION} <= services
    handled = metrics.of("grpc_server_handled_total", grpc_service=REFLECTION)
    assert {code: count for code, count in handled.items() if count} == {"OK": 1}
