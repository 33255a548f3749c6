"""grpc.health.v1 on the event loop.

The servicer that comes with grpcio-health-checking would not do: where several watch one name, and
one of them leaves, the others hear nothing any more; and one that reads nothing holds changes up.
"""

import asyncio

from grpc_health.v1 import health_pb2

from kvtier.server.health.board import HealthBoard, status_of
from kvtier.server.services.admission import Send
from kvtier.wire.errors import Reason, exhausted

HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"]
# Newer versions of the protocol have more.
METHODS = ("Check", "Watch")
_MOST_WATCHERS = 1024
_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class HealthService:
    """Answers whoever asks for the health of a name, or watches it.

    Args:
        board: What is said.
    """

    def __init__(self, board: HealthBoard) -> None:
        self._board = board
        self._watchers = 0

    def check(self, request: health_pb2.HealthCheckRequest) -> health_pb2.HealthCheckResponse:
        """Tell a name's status.

        Raises:
            KvtierError: NOT_FOUND when nothing is said of that name.
        """
        return health_pb2.HealthCheckResponse(status=status_of(self._board, request.service))

    async def watch(self, request: health_pb2.HealthCheckRequest, send: Send) -> None:
        """Tell a name's status, and each that it changes to.

        Raises:
            KvtierError: RESOURCE_EXHAUSTED when very many watch.
        """
        if self._watchers >= _MOST_WATCHERS:
            raise exhausted(
                f"{_MOST_WATCHERS} calls watch the health, which is the limit: use Check",
                Reason.CALL_LIMIT,
                retry_after=1.0,
            )
        changed = asyncio.Event()
        self._watchers += 1
        self._board.listen(changed.set)
        try:
            await self._tell(request.service, send, changed)
        finally:
            self._board.forget(changed.set)
            self._watchers -= 1

    async def _tell(self, name: str, send: Send, changed: asyncio.Event) -> None:
        told = None
        while True:
            status = self._board.get(name, _UNKNOWN)
            if status != told:
                await send(health_pb2.HealthCheckResponse(status=status).SerializeToString())
                told = status
            await changed.wait()
            changed.clear()
