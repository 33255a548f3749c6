"""Asking a node whether it is ready."""

from collections.abc import AsyncIterator

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health import aio as health_aio
from grpc_health.v1.health_pb2 import HealthCheckResponse

from kvtier.client import NodeClient, UnimplementedError

from .fakes import FakeNode


@pytest.fixture(name="health")
async def _health() -> AsyncIterator[tuple[health_aio.HealthServicer, str]]:
    """The health service of a server, and where it is."""
    servicer, server = health_aio.HealthServicer(), grpc.aio.server()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield servicer, f"127.0.0.1:{port}"
    await server.stop(None)


async def test_a_node_is_ready_when_it_says_so(
    health: tuple[health_aio.HealthServicer, str],
) -> None:
    """Any other word of its health is that it is not."""
    servicer, endpoint = health
    said = {}

    async with NodeClient(endpoint) as client:
        for name, status in HealthCheckResponse.ServingStatus.items():
            await servicer.set("", status)
            said[name] = await client.is_ready()

    assert {name for name, ready in said.items() if ready} == {"SERVING"}
    assert len(said) == 4


async def test_a_server_without_health_says_nothing(node: FakeNode) -> None:
    """That is an error, not an answer."""
    async with NodeClient(node.endpoint) as client:
        with pytest.raises(UnimplementedError):
            await client.is_ready()
