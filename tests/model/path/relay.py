"""A relay between one follower and one node, which can hold back what it passes on."""

import asyncio
from asyncio import StreamReader, StreamWriter
from contextlib import suppress

from tests.faults.relay import Relay


class HoldingRelay(Relay):
    """Passes bytes on in both directions, unless it is told to hold them for a while.

    Its target is empty at first: connections break until it leads somewhere.
    """

    def __init__(self) -> None:
        super().__init__("")
        self._left: int | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()

    @property
    def holding(self) -> bool:
        """Whether nothing is passed on."""
        return not self._flowing.is_set()

    def hold(self) -> None:
        """Keep every connection, and pass on nothing."""
        self._left = None
        self._flowing.clear()

    def hold_after(self, count: int) -> None:
        """Hold once so many more bytes came from the node, in the midst of a message or not."""
        self._left = count

    def go_on(self) -> None:
        """Pass on what waited, and all that comes."""
        self._left = None
        self._flowing.set()

    async def _pass_on(self, source: StreamReader, sink: StreamWriter, *, from_node: bool) -> None:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                if from_node:
                    data = self._count(data, sink)
                await self._flowing.wait()
                sink.write(data)
                await sink.drain()
            await self._flowing.wait()
        self._end(sink)

    def _count(self, data: bytes, sink: StreamWriter) -> bytes:
        """Pass on what may still pass; return the rest."""
        if self._left is None:
            return data
        left = self._left
        if left > len(data):
            self._left = left - len(data)
            return data
        self.hold()
        sink.write(data[:left])
        return data[left:]
