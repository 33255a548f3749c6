"""Asking a server for its health, as probes do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc


def word(status: int) -> str:
    """Return a status in the words of the protocol."""
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(status))


class Health:
    """The health of a server at one of its addresses."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: Any = health_pb2_grpc.HealthStub(channel)

    async def check(self, name: str = "") -> str:
        """Return the status of a name."""
        request = health_pb2.HealthCheckRequest(service=name)
        return word((await self._stub.Check(request, timeout=10)).status)

    def watch(self, name: str = "") -> "HealthWatch":
        """Hear of the status of a name."""
        return HealthWatch(self._stub.Watch(health_pb2.HealthCheckRequest(service=name)))


class HealthWatch:
    """One call that watches a name."""

    def __init__(self, call: Any) -> None:
        self.call = call

    async def next(self) -> str:
        """Return the next status."""
        return word((await self.call.read()).status)


@asynccontextmanager
async def health(endpoint: str) -> AsyncIterator[Health]:
    """Connect to one address of a server."""
    async with grpc.aio.insecure_channel(endpoint) as channel:
        yield Health(channel)


def check_now(endpoint: str, name: str) -> str:
    """Return the status of a name, holding the event loop up meanwhile."""
    with grpc.insecure_channel(endpoint) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service=name)
        return word(stub.Check(request, timeout=10, wait_for_ready=True).status)
