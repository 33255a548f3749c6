"""An event loop on a thread of its own, for callers that block."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar

from kvtier.client.errors import client_closed

S = TypeVar("S")
T = TypeVar("T")


class LoopThread:
    """The one event loop in the background, shared by everybody who holds it.

    gRPC's asyncio side is at its best with one loop in a process. The thread starts with the first
    holder and ends with the last.
    """

    _shared: ClassVar["LoopThread | None"] = None
    _holders: ClassVar[int] = 0
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="kvtier-client", daemon=True
        )
        self._thread.start()

    @classmethod
    def hold(cls) -> "LoopThread":
        """Return the shared loop; each holder calls `release` once."""
        with cls._lock:
            if cls._shared is None:
                cls._shared = cls()
            cls._holders += 1
            return cls._shared

    def release(self) -> None:
        """Give the loop back; the last one stops it."""
        with self._lock:
            LoopThread._holders -= 1
            if LoopThread._holders:
                return
            LoopThread._shared = None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for it; an interrupt cancels it."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()


class OnLoop(Generic[S]):
    """Something that lives on the loop in the background, for callers that block.

    Args:
        loop: The loop, held for it.
        subject: What lives there.
        endpoint: The address that it is of, for messages.
        end: Ends it.
    """

    def __init__(
        self,
        loop: LoopThread,
        subject: S,
        endpoint: str,
        end: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._loop: LoopThread | None = loop
        self._subject = subject
        self._address = endpoint
        self._end = end

    def close(self) -> None:
        """End it, and give the background loop back. Twice is harmless."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.run(self._end())
            loop.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, call: Callable[[S], Coroutine[Any, Any, T]]) -> T:
        if self._loop is None:
            raise client_closed(self._address)
        return self._loop.run(call(self._subject))
