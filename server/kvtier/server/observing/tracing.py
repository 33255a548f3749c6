"""Traces of calls with OpenTelemetry, which is imported only where it is asked for."""

import asyncio
import threading
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

import grpc

from kvtier.server.config import ConfigError
from kvtier.server.services.calls import Call
from kvtier.server.services.outcome import status_code

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

_CLOSE_SECONDS = 2.0
# What is the server's fault, as the conventions for RPCs have it.
_FAULTS = {
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS,
}


def open_tracing(node_id: str) -> "TracedCalls":
    """Return what traces calls, and sends the traces where the OTEL_ variables say.

    Raises:
        ConfigError: When OpenTelemetry is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415 - optional
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import (  # noqa: PLC0415 - optional
            OTELResourceDetector,
            Resource,
        )
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - optional
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - optional
    except ImportError:
        raise ConfigError(
            "tracing is true and OpenTelemetry is not installed; pip install 'kvtier[otel]', or "
            "set tracing to false"
        ) from None
    mine = {"service.name": "kvtier", "service.instance.id": node_id}
    environment = OTELResourceDetector().detect().attributes
    resource = Resource.create({**mine, **environment})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return TracedCalls(provider)


class TracedCalls:
    """A guard that makes a span of each call, as a part of the trace that the caller names.

    Args:
        provider: Makes the spans, and takes them where they go.
    """

    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry import trace  # noqa: PLC0415 - optional
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - optional
            TraceContextTextMapPropagator,
        )

        self._trace = trace
        self._provider = provider
        self._tracer = provider.get_tracer("kvtier")
        self._propagator = TraceContextTextMapPropagator()

    def __call__(self, call: Call) -> "_Traced":
        """Return what is around a call."""
        return _Traced(self, call)

    def begin(self, call: Call) -> "Span":
        """Begin the span of a call."""
        method, service = call.method.name, call.method.containing_service.full_name
        named = {
            key: value
            for key, value in call.context.invocation_metadata() or ()
            if isinstance(value, str) and key in self._propagator.fields
        }
        return self._tracer.start_span(
            f"{service}/{method}",
            context=self._propagator.extract(named),
            kind=self._trace.SpanKind.SERVER,
            attributes={"rpc.system": "grpc", "rpc.service": service, "rpc.method": method},
        )

    def end(self, span: "Span", code: grpc.StatusCode) -> None:
        """End the span of a call with the code of its status."""
        span.set_attribute("rpc.grpc.status_code", code.value[0])
        if code in _FAULTS:
            span.set_status(self._trace.StatusCode.ERROR, code.name)
        span.end()

    async def close(self) -> None:
        """Send what is left, as far as that is quick."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()

        def shut_down() -> None:
            self._provider.shutdown()
            # The loop may be gone.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(over.set)

        # The loop's own threads are waited for, however long they take.
        threading.Thread(target=shut_down, name="kvtier-traces", daemon=True).start()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await over.wait()


class _Traced:
    __slots__ = ("_call", "_calls", "_span")

    def __init__(self, calls: TracedCalls, call: Call) -> None:
        self._calls = calls
        self._call = call
        self._span: Span

    def __enter__(self) -> None:
        self._span = self._calls.begin(self._call)

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        failure: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._calls.end(self._span, status_code(self._call, failure))
