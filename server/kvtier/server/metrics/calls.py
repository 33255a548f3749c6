"""Calls, by method and outcome, under the names of go-grpc-prometheus."""

from collections.abc import Iterable, Iterator
from time import perf_counter
from types import TracebackType

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from kvtier.server.metrics.families import Family, Histogram, Read
from kvtier.server.services.calls import Call
from kvtier.server.services.outcome import status_code

_METHOD = ("grpc_service", "grpc_method")
_TYPED = (*_METHOD, "grpc_type")
_STARTED = Family("grpc_server_started_total", "Calls that began.", _TYPED)
_HANDLED = Family("grpc_server_handled_total", "Calls that ended.", (*_TYPED, "grpc_code"))
_SECONDS = Histogram(
    "grpc_server_handling_seconds",
    "How long calls with one request and one response took, until the response was made.",
    (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    _TYPED,
)
_IN_FLIGHT = Family("kvtier_rpcs_in_flight", "Calls that are served now.", _METHOD)
FAMILIES = (_STARTED, _HANDLED, _SECONDS, _IN_FLIGHT)

_TYPES = {
    (False, False): "unary",
    (True, False): "client_stream",
    (False, True): "server_stream",
    (True, True): "bidi_stream",
}


class _Method:
    """What is counted of one method."""

    def __init__(self, method: MethodDescriptor) -> None:
        kind = _TYPES[method.client_streaming, method.server_streaming]
        self.labels = (method.containing_service.full_name, method.name, kind)
        self.started = self.in_flight = 0
        self.handled = dict.fromkeys(grpc.StatusCode, 0)
        self.coded = [(*self.labels, code.name) for code in self.handled]
        self.seconds = _SECONDS.begin() if kind == "unary" else None


class CallMetrics:
    """A guard that counts calls.

    Every method and code is there from the start, at 0; gRPC itself refuses what is no method.

    Args:
        services: The services whose calls it is around.
    """

    def __init__(self, services: Iterable[ServiceDescriptor]) -> None:
        self._methods = {
            method.full_name: _Method(method) for service in services for method in service.methods
        }

    def __call__(self, call: Call) -> "_Counted":
        """Return what counts a call."""
        return _Counted(call, self._methods[call.method.full_name])

    def collect(self) -> Iterator[Read]:
        """Read what was counted."""
        methods = self._methods.values()
        yield _STARTED.of((each.labels, each.started) for each in methods)
        yield _HANDLED.of(
            row for each in methods for row in zip(each.coded, each.handled.values(), strict=True)
        )
        yield _SECONDS.of((each.labels, each.seconds) for each in methods if each.seconds)
        yield _IN_FLIGHT.of((each.labels[:2], each.in_flight) for each in methods)


class _Counted:
    __slots__ = ("_began", "_call", "_method")

    def __init__(self, call: Call, method: _Method) -> None:
        self._call = call
        self._method = method
        self._began = 0.0

    def __enter__(self) -> None:
        self._method.started += 1
        self._method.in_flight += 1
        self._began = perf_counter()

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        failure: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        method = self._method
        method.in_flight -= 1
        method.handled[status_code(self._call, failure)] += 1
        if method.seconds is not None:
            method.seconds.observe(perf_counter() - self._began)
