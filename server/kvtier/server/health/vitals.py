"""The health of a process: what is said of it, and where, and who looks after it."""

import asyncio
from collections.abc import Iterable
from typing import Any

import structlog

from kvtier.server.health.board import HealthBoard
from kvtier.server.health.liveness import Liveness
from kvtier.server.health.port import HealthPort
from kvtier.server.health.promptness import Promptness
from kvtier.server.health.service import HEALTH, METHODS, HealthService
from kvtier.server.services.rpc import Registry, add_service

_log = structlog.get_logger(__name__)


class Vitals:
    """Answers for the health of a server, at its own address and at a second one.

    Args:
        health_listen: The second address; None for none.

    Attributes:
        board: What is said.
        port: The second address.
    """

    def __init__(self, health_listen: str | None) -> None:
        self.board = HealthBoard()
        self.port = HealthPort(health_listen, self.board) if health_listen else None
        self._liveness = Liveness(self.board, self._tell)

    def start(self, server: Registry) -> None:
        """Begin to answer, and to look after the loop that this is called on.

        Raises:
            StartError: When the second address cannot be bound.
        """
        add_service(
            server,
            HEALTH,
            HealthService(self.board),
            before=lambda: None,
            guards=(Promptness(),),
            only=METHODS,
        )
        self._liveness.start()
        if self.port:
            self.port.start()
            _log.info("serving health", listen=self.port.address)

    def needs(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """Take the process for dead when one of these tasks fails."""
        self._liveness.needs(tasks)

    def close(self) -> None:
        """Answer no more."""
        self._liveness.close()
        if self.port:
            self.port.stop()

    def _tell(self, stuck: bool) -> None:
        if self.port:
            self.port.show(stuck=stuck)
