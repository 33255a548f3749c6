"""The limit: a socket on loopback, one copy into it and one out of it, and nothing else.

The client's `recv_into` and `sendall` work on large buffers that exist already.
"""

import socket
import struct
import sys
from collections.abc import Sequence

from benchmarks.bulk.child import Child, python
from benchmarks.bulk.contender import MOST_BYTES

NAME = "raw TCP"
_ORDER = struct.Struct("<cQQ")


def missing() -> str:
    """Return nothing: it needs nothing."""
    return ""


def open() -> "RawTcp":  # noqa: A001 - as the measurements call it
    """Start the server and connect."""
    return RawTcp(Child(python(__name__)))


class RawTcp:
    """A `Contender`."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self.servers = [child.pid]
        self._socket = socket.create_connection(("127.0.0.1", int(child.first_line)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffers: list[bytearray] = []

    def put(self, blocks: Sequence[memoryview]) -> None:
        """See `Contender`."""
        if [len(block) for block in blocks] != [len(buffer) for buffer in self._buffers]:
            self._buffers = [bytearray(len(block)) for block in blocks]
        self._socket.sendall(_ORDER.pack(b"p", len(blocks), len(blocks[0])))
        for block in blocks:
            self._socket.sendall(block)
        receive(self._socket, memoryview(bytearray(1)))

    def get(self) -> Sequence[bytearray]:
        """See `Contender`."""
        self._socket.sendall(_ORDER.pack(b"g", len(self._buffers), len(self._buffers[0])))
        for buffer in self._buffers:
            receive(self._socket, memoryview(buffer))
        return self._buffers

    def close(self) -> None:
        """See `Contender`."""
        self._socket.close()
        self._child.close()


def receive(connection: socket.socket, view: memoryview) -> bool:
    """Fill a buffer; return whether the other side sent so much."""
    while view:
        count = connection.recv_into(view)
        if not count:
            return False
        view = view[count:]
    return True


def _serve() -> None:
    arena = memoryview(bytearray(MOST_BYTES))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    order = memoryview(bytearray(_ORDER.size))
    while receive(connection, order):
        word, count, size = _ORDER.unpack(order)
        for place in range(count):
            block = arena[place * size : (place + 1) * size]
            if word == b"p":
                receive(connection, block)
            else:
                connection.sendall(block)
        if word == b"p":
            connection.sendall(b"k")


if __name__ == "__main__":
    _serve()
