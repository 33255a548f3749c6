"""Whether a process is of any use: its event loop gets on, and what must go on there does."""

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import structlog

from kvtier.server.health.board import LIVENESS, NOT_SERVING, SERVING, HealthBoard

_log = structlog.get_logger(__name__)

_BEAT = 0.25
# Longer than anything that is meant to be done at once on the loop.
PATIENCE = 10.0
_DEEPEST = 20


class Liveness:
    """Watches over the event loop from a thread, and over tasks that must not fail.

    A probe at the loop's own address gets no answer while the loop is stuck; `tell` is for who
    answers without it. A task that failed does not come back: the process lives no more.

    Args:
        board: Where it is said.
        tell: Called from the thread with whether the loop is stuck, when that changes.
        patience: How long the loop may make no progress, in seconds.
        clock: The time, in seconds.

    Attributes:
        failed: A task that must not has failed.
    """

    def __init__(
        self,
        board: HealthBoard,
        tell: Callable[[bool], None],
        patience: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.failed = False
        self._board = board
        self._tell = tell
        self._patience = PATIENCE if patience is None else patience
        self._clock = clock
        self._last = clock()
        self._stuck = False
        self._over = threading.Event()
        self._loop_thread = threading.get_ident()
        self._beating: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch over the loop that this is called on."""
        self._loop_thread = threading.get_ident()
        self._board.set([LIVENESS], SERVING)
        self._beating = asyncio.create_task(self._beat())
        threading.Thread(target=self._watch, name="kvtier-watchdog", daemon=True).start()

    def close(self) -> None:
        """Watch no more."""
        self._over.set()
        if self._beating is not None:
            self._beating.cancel()

    def needs(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """Take the process for dead when one of these tasks fails."""
        for task in tasks:
            task.add_done_callback(self._note_end)

    def look(self) -> None:
        """See whether the loop gets on; any thread may call it."""
        silence = self._clock() - self._last
        stuck = silence > self._patience
        if stuck == self._stuck:
            return
        self._stuck = stuck
        if stuck:
            _log.error("the event loop is stuck", seconds=round(silence, 1), at=self._place())
        else:
            _log.warning("the event loop gets on again")
        self._tell(stuck)

    async def _beat(self) -> None:
        while True:
            self._last = self._clock()
            await asyncio.sleep(_BEAT)

    def _watch(self) -> None:
        while not self._over.wait(_BEAT):
            self.look()

    def _place(self) -> str:
        """Return where the loop's thread is."""
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - the documented way
        calls = traceback.extract_stack(frame)[-_DEEPEST:] if frame else []
        return " > ".join(f"{call.name}:{call.lineno}" for call in calls)

    def _note_end(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.failed = True
            _log.critical("what must go on has failed: start the process anew", exc_info=error)
            self._board.set([LIVENESS], NOT_SERVING)
