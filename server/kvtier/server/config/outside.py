"""The settings of how a server is seen from outside, which a node and a proxy have alike."""

from typing import Annotated

from pydantic import Field

from kvtier.server.config.addresses import Address, Endpoint

Reflection = Annotated[
    bool,
    Field(
        description="Whether callers may ask which services and messages there are "
        "(grpc.reflection.v1alpha)."
    ),
]
HealthListen = Annotated[
    Address | None,
    Field(
        description="A second address, HOST:PORT or unix:/PATH, for grpc.health.v1 alone: without "
        "TLS, where probes know none, and answered also when the process hangs."
    ),
]
MetricsListen = Annotated[
    Endpoint | None,
    Field(
        description="Address, HOST:PORT, of the metrics for Prometheus, over HTTP at /metrics; "
        "whoever reaches it can read them. Unset: none."
    ),
]
Tracing = Annotated[
    bool,
    Field(
        description="Whether calls are traced with OpenTelemetry, which kvtier[otel] brings; the "
        "OTEL_ variables of the environment say where to."
    ),
]
