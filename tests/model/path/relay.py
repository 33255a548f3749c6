"""A relay between one follower and one node, which can stall, break, and lead to a new address."""

import asyncio
import socket
import struct
from asyncio import StreamReader, StreamWriter
from contextlib import suppress
from typing import Self

_NO_LINGER = struct.pack("ii", 1, 0)


class Relay:
    """Passes bytes on in both directions, unless it is told not to.

    Attributes:
        endpoint: Where the follower connects to, as long as the relay lives.
        target: Where the node is; empty while it is nowhere, and then connections break.
        stalled: Whether nothing is passed on.
    """

    def __init__(self) -> None:
        self.endpoint = ""
        self.target = ""
        self._left: int | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._writers: set[StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.endpoint = f"{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def stalled(self) -> bool:
        return not self._flowing.is_set()

    def stall(self) -> None:
        """Keep every connection, and pass on nothing."""
        self._left = None
        self._flowing.clear()

    def stall_after(self, count: int) -> None:
        """Stall once so many more bytes came from the node, in the midst of a message or not."""
        self._left = count

    def go_on(self) -> None:
        """Pass on what waited, and all that comes."""
        self._left = None
        self._flowing.set()

    def cut(self) -> None:
        """Break every connection, on both sides, by a RST."""
        for writer in self._writers:
            with suppress(OSError):
                connection = writer.get_extra_info("socket")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            writer.transport.abort()
        self._writers.clear()

    async def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._writers.add(writer)
        host, _, port = self.target.rpartition(":")
        try:
            there_reader, there_writer = await asyncio.open_connection(host, int(port or 0))
        except OSError:
            writer.transport.abort()
            return
        self._writers.add(there_writer)
        for passing in (
            self._pass_on(reader, there_writer, from_node=False),
            self._pass_on(there_reader, writer, from_node=True),
        ):
            task = asyncio.create_task(passing)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, source: StreamReader, sink: StreamWriter, *, from_node: bool) -> None:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                if from_node:
                    data = self._count(data, sink)
                await self._flowing.wait()
                sink.write(data)
                await sink.drain()
            await self._flowing.wait()
        sink.close()
        self._writers.discard(sink)

    def _count(self, data: bytes, sink: StreamWriter) -> bytes:
        """Pass on what may still pass; return the rest."""
        if self._left is None:
            return data
        left = self._left
        if left > len(data):
            self._left = left - len(data)
            return data
        self.stall()
        sink.write(data[:left])
        return data[left:]
