"""With tracing on, each call is a span in the trace that its caller names."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import grpc.aio
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from kvtier.server.config import ConfigError, NodeConfig
from kvtier.server.lifecycle import TierServer
from kvtier.server.observing import observing, tracing
from kvtier.server.observing.tracing import TracedCalls
from tests.waiting import until

from .conftest import Serve
from .raw_calls import raw
from .support import cpu_tier

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Where the spans of nodes go that the test starts."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(observing, "open_tracing", lambda _node_id: TracedCalls(provider))
    yield exporter
    provider.shutdown()


def about(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_call_is_one_span_of_its_callers_trace(
    serve: Serve, exporter: InMemorySpanExporter
) -> None:
    """It has the attributes of an RPC on a server, and the caller's span as its parent."""
    node = await serve(cpu_tier(4), tracing=True, register=False)
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        parent = ("traceparent", f"00-{TRACE}-{PARENT}-01")
        await raw(channel, "GetNode")(b"", metadata=(parent,))
        await until(exporter.get_finished_spans)

    (span,) = exporter.get_finished_spans()
    assert (span.name, span.kind) == ("kvtier.v1.TierService/GetNode", SpanKind.SERVER)
    assert span.context is not None
    assert span.parent is not None
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert about(span) == {
        "rpc.system": "grpc",
        "rpc.service": "kvtier.v1.TierService",
        "rpc.method": "GetNode",
        "rpc.grpc.status_code": 0,
    }


@pytest.mark.parametrize("parent", [None, "nonsense", f"00-{'0' * 32}-{PARENT}-01"])
async def test_a_call_without_a_good_parent_begins_a_trace(
    serve: Serve, exporter: InMemorySpanExporter, parent: str | None
) -> None:
    """A refused call is a span, too, and no fault of the server."""
    node = await serve(cpu_tier(4), tracing=True, register=False)
    metadata = (("traceparent", parent),) if parent is not None else ()
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        call = raw(channel, "LookupBlocks")(b"\xff", metadata=metadata)
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
        await until(exporter.get_finished_spans)

    (span,) = exporter.get_finished_spans()
    assert span.parent is None
    assert about(span)["rpc.grpc.status_code"] == 3
    assert span.status.is_unset


async def test_a_stream_of_many_messages_is_one_span(
    serve: Serve, exporter: InMemorySpanExporter
) -> None:
    """Messages have none of their own."""
    node = await serve(cpu_tier(8), tracing=True)
    await node.store("A", "B", "C")
    await node.load("A", "B", "C")
    await until(lambda: len(exporter.get_finished_spans()) >= 3)

    methods = [about(span)["rpc.method"] for span in exporter.get_finished_spans()]
    assert sorted(methods) == ["ReadBlocks", "RegisterNamespace", "WriteBlocks"]


async def test_spans_go_where_the_environment_says(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left when a node stops is sent before it ends, with the node's id."""
    came: list[ExportTraceServiceRequest] = []

    async def export(request: ExportTraceServiceRequest, _context: object) -> Any:
        came.append(request)
        return ExportTraceServiceResponse()

    collector = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(
        export,
        request_deserializer=ExportTraceServiceRequest.FromString,
        response_serializer=ExportTraceServiceResponse.SerializeToString,
    )
    service = "opentelemetry.proto.collector.trace.v1.TraceService"
    collector.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {"Export": handler}),)
    )
    port = collector.add_insecure_port("127.0.0.1:0")
    await collector.start()
    try:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
        node = await serve(cpu_tier(4), tracing=True)
        await node.server.drain_and_stop()
        async with asyncio.timeout(10):
            await until(lambda: came)
    finally:
        await collector.stop(0)

    spans = came[0].resource_spans[0]
    told = {each.key: each.value.string_value for each in spans.resource.attributes}
    assert told["service.name"] == "mine"
    assert told["service.instance.id"] == node.node.node_id
    assert spans.scope_spans[0].spans[0].name == "kvtier.v1.TierService/RegisterNamespace"


def test_tracing_without_opentelemetry_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The start ends with one line, before anything is taken."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    config = NodeConfig.model_validate({"tiers": [cpu_tier(4)], "tracing": True})

    with pytest.raises(ConfigError, match=r"pip install 'kvtier\[otel\]'"):
        TierServer(config)


def test_a_collector_that_hangs_holds_no_process_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the stop of a node nor the end of its loop waits for the last spans for long."""
    provider, gate, begun = TracerProvider(), threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        gate.wait(60)

    monkeypatch.setattr(tracing, "_CLOSE_SECONDS", 0.1)
    monkeypatch.setattr(provider, "shutdown", hang)
    try:
        began = time.monotonic()
        asyncio.run(TracedCalls(provider).close())

        assert begun.is_set()
        assert time.monotonic() - began < 30
    finally:
        gate.set()


def test_nothing_of_opentelemetry_is_imported_without_tracing() -> None:
    """A node that traces nothing starts without it."""
    script = (
        "import sys, kvtier.proxy.lifecycle\n"
        "from kvtier.server.config import NodeConfig\n"
        "from kvtier.server.lifecycle import TierServer\n"
        "from kvtier.server.observing.observing import Observing\n"
        "Observing(NodeConfig(), [])\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[]", "")
