"""A relay between clients and a node, whose connections a test can break.

Run as a program, with the endpoint of a node, and the address that its connections come from, it
relays until it is killed.
"""

import asyncio
import socket
import struct
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import Coroutine
from contextlib import suppress
from typing import Self

_NO_LINGER = struct.pack("ii", 1, 0)


class Relay:
    """Passes bytes on in both directions.

    Attributes:
        endpoint: Where clients connect to.
        target: Where the next connections lead; empty closes each as soon as it is made.
        connections: How many were made so far.
        source: The address that its connections come from; None for any.
    """

    def __init__(self, target: str, listen: str = "127.0.0.1:0", source: str | None = None) -> None:
        self.endpoint = listen
        self.target = target
        self.source = source
        self.connections = 0
        self._writers: set[StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stalled = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        host, _, port = self.endpoint.rpartition(":")
        self._server = await asyncio.start_server(self._accept, host, int(port))
        host, port = self._server.sockets[0].getsockname()
        self.endpoint = f"{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        server, self._server = self._server, None
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.reset()
        await server.wait_closed()

    def reset(self) -> None:
        """Break every connection, on both sides, by a RST."""
        for writer in self._writers:
            with suppress(OSError):
                connection = writer.get_extra_info("socket")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            writer.transport.abort()
        self._writers.clear()

    def stall(self) -> None:
        """Pass on no more of any connection there is, without a word: each is half-open.

        Connections that are made afterwards are passed on.
        """
        self._stalled.set()
        self._stalled = asyncio.Event()

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.connections += 1
        if not self.target or self._server is None:
            writer.transport.abort()
            return
        self._writers.add(writer)
        self._begin(self._connect(reader, writer))

    async def _connect(self, reader: StreamReader, writer: StreamWriter) -> None:
        host, _, port = self.target.rpartition(":")
        try:
            there_reader, there_writer = await asyncio.open_connection(
                host, int(port), local_addr=(self.source, 0) if self.source else None
            )
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(there_writer)
        self._begin(self._pass_on(reader, there_writer, from_node=False))
        self._begin(self._pass_on(there_reader, writer, from_node=True))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pass_on(
        self,
        source: StreamReader,
        sink: StreamWriter,
        *,
        from_node: bool,
    ) -> None:
        stalled = self._stalled
        with suppress(OSError):
            while data := await source.read(1 << 16):
                if stalled.is_set():
                    await asyncio.Event().wait()
                sink.write(data)
                await sink.drain()
            # The end of a stalled connection is not passed on either.
            if not stalled.is_set():
                self._end(sink)

    def _end(self, sink: StreamWriter) -> None:
        sink.close()
        self._writers.discard(sink)


async def _relay(target: str, source: str | None = None) -> None:
    async with Relay(target, source=source) as relay:
        sys.stdout.write(relay.endpoint + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_relay(*sys.argv[1:]))
