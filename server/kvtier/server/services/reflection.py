"""Telling callers which services and messages there are: grpc.reflection.v1alpha."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection import aio

from kvtier.server.services.rpc import Sender

REFLECTION = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"]


class Reflection:
    """Answers what the library for it answers.

    Args:
        services: The full names of all services.
    """

    def __init__(self, services: Sequence[str]) -> None:
        self._servicer = aio.ReflectionServicer(services)

    async def server_reflection_info(self, requests: AsyncIterator[Any], send: Sender) -> None:
        """Answer each question."""
        async for answer in self._servicer.ServerReflectionInfo(requests, None):
            await send(answer)
