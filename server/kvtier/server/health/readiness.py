"""Whether a server is ready for work."""

import asyncio
from collections.abc import Iterable, Sequence

import structlog
from google.protobuf.descriptor import ServiceDescriptor

from kvtier.server.health.board import NOT_SERVING, SERVING, HealthBoard, Status
from kvtier.server.lasting.health import Health

_log = structlog.get_logger(__name__)


class Readiness:
    """Says whether a server is ready: under no name, and for each service.

    Args:
        board: Where it is said.
        services: The services.

    Attributes:
        ready: Whether that was said last.
    """

    def __init__(self, board: HealthBoard, services: Iterable[ServiceDescriptor]) -> None:
        self._board = board
        self._names = ("", *(service.full_name for service in services))
        self._left = self.ready = False

    def begin(self) -> None:
        """Say that the server is not ready."""
        self._say(NOT_SERVING)

    def arrive(self) -> None:
        """Say that the server is ready, unless it was left before."""
        if not self._left:
            self._say(SERVING)
            _log.info("ready")

    def leave(self) -> None:
        """Say that the server is not ready any more, nor will be."""
        self._left = True
        self._say(NOT_SERVING)

    def _say(self, status: Status) -> None:
        self.ready = status == SERVING
        self._board.set(self._names, status)


async def recovered(tiers: Sequence[Health]) -> None:
    """Wait until every tier knows what it holds; one that cannot be reached is not waited for."""
    changed = asyncio.Event()
    for tier in tiers:
        tier.listen(changed.set)
    while any(tier.recovering and not tier.trouble for tier in tiers):
        changed.clear()
        await changed.wait()
