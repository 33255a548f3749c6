"""Taking the messages of a call, the next while the blocks of one are being saved."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from kvtier.server.transfers.budget import Budget
from kvtier.server.transfers.writer import BlockWriter, Results
from kvtier.wire.chunks import Chunk

if TYPE_CHECKING:
    from kvtier.server.transfers.sink import Verdicts

_MOST_SAVING = 2


async def take_all(
    writer: BlockWriter, messages: AsyncIterator[Chunk], budget: Budget
) -> AsyncGenerator[Results, None]:
    """Write what messages bring; yield what became of their blocks, as soon as it is known.

    It holds when it is yielded; a turn of the event loop later it may not.

    Close it: it may be reading ahead.

    Args:
        writer: Writes them.
        messages: What comes. An error that it raises is raised when all that came before is told.
        budget: Bytes that all calls may have in memory; the caller has those of one message.
    """
    if not writer.ahead_bytes:
        async for message in messages:
            begun = writer.begin(message)
            yield begun if isinstance(begun, dict) else begun.settle(await begun.verdicts)
        return
    taking = _Taking(writer, messages, budget)
    try:
        while (results := await taking.next()) is not None:
            yield results
    finally:
        await taking.close()


class _Taking:
    """Reads messages while blocks are being saved, as far as the budget allows."""

    def __init__(self, writer: BlockWriter, messages: AsyncIterator[Chunk], budget: Budget) -> None:
        self._writer = writer
        self._messages = messages
        self._budget = budget
        self._saving: dict[asyncio.Future[Verdicts], Callable[[Verdicts], Results]] = {}
        self._coming: asyncio.Future[Chunk | None] | None = None
        self._ended = False
        self._failure: Exception | None = None
        self._ahead = 0

    async def next(self) -> Results | None:
        """Return what is known next; None when all is over."""
        while True:
            self._read_on()
            if not (self._saving or self._coming):
                self._raise_failure()
                return None
            await asyncio.wait(self._works(), return_when=asyncio.FIRST_COMPLETED)
            results = self._known()
            if results is not None:
                return results

    async def close(self) -> None:
        """Leave what is under way to itself."""
        works = self._works()
        for work in works:
            work.cancel()
        self._give_back()
        await asyncio.gather(*works, return_exceptions=True)

    def _works(self) -> "list[asyncio.Future[Any]]":
        return [*self._saving, self._coming] if self._coming else [*self._saving]

    def _read_on(self) -> None:
        """Read the next message, if it may be in memory beside those that are being saved."""
        if not self._saving:
            self._give_back()
        if self._ended or self._coming or len(self._saving) == _MOST_SAVING:
            return
        if self._saving and not self._ahead:
            if not self._budget.take_spare(self._writer.ahead_bytes):
                return
            self._ahead = self._writer.ahead_bytes
        self._coming = asyncio.ensure_future(self._next_message())

    async def _next_message(self) -> Chunk | None:
        try:
            return await anext(self._messages, None)
        except Exception as error:  # noqa: BLE001 - it is raised when its turn comes
            self._failure = error
            return None

    def _known(self) -> Results | None:
        """Return what is known now, if anything is, and begin to write what came."""
        for save in self._saving:
            if save.done():
                settle = self._saving.pop(save)
                return settle(save.result())
        if self._coming is None or not self._coming.done():
            return None
        message, self._coming = self._coming.result(), None
        if message is None:
            self._ended = True
            return None
        begun = self._writer.begin(message)
        if isinstance(begun, dict):
            return begun
        self._saving[asyncio.ensure_future(begun.verdicts)] = begun.settle
        return None

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        try:
            if failure is not None:
                raise failure
        finally:
            # It leads to this frame, and would keep what the call had.
            del failure

    def _give_back(self) -> None:
        ahead, self._ahead = self._ahead, 0
        if ahead:
            self._writer.under_way.then(lambda: self._budget.give_back(ahead))
