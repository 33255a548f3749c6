"""NodeService: operating a node."""

from collections.abc import Awaitable, Callable

from kvtier.v1.node_service_pb2 import DrainRequest, DrainResponse


class NodeService:
    """Operates a node. The calls are documented in `kvtier/v1/node_service.proto`.

    Args:
        drain: Drains the node.
    """

    def __init__(self, drain: Callable[[], Awaitable[DrainResponse]]) -> None:
        self._drain = drain

    async def drain(self, _request: DrainRequest) -> DrainResponse:
        """Take the node out of service, and tell what was left."""
        return await self._drain()
