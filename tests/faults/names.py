"""A name server that knows one name, whose address a test can change."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

_HEADER = struct.Struct(">HHHHHH")
_ANSWER = struct.Struct(">HHHIH")
_IPV4, _INTERNET = 1, 1
_IS_ANSWER, _THE_NAME_ASKED_FOR = 0x8580, 0xC00C


class Names(asyncio.DatagramProtocol):
    """Answers each question for an IPv4 address with the same one, to be kept for no time.

    Attributes:
        address: The address.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._transport: asyncio.DatagramTransport | None = None

    def target(self, endpoint: str) -> str:
        """Return the gRPC target of a name that stands for the address, with an endpoint's port."""
        assert self._transport is not None
        host, port = self._transport.get_extra_info("sockname")
        return f"dns://{host}:{port}/node.test:{endpoint.rpartition(':')[2]}"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self._transport is not None
        end = data.index(b"\0", _HEADER.size) + 1
        (kind,) = struct.unpack_from(">H", data, end)
        question = data[_HEADER.size : end + 4]
        answer = b""
        if kind == _IPV4:
            answer = _ANSWER.pack(_THE_NAME_ASKED_FOR, _IPV4, _INTERNET, 0, 4)
            answer += socket.inet_aton(self.address)
        (number,) = struct.unpack_from(">H", data)
        header = _HEADER.pack(number, _IS_ANSWER, 1, bool(answer), 0, 0)
        self._transport.sendto(header + question + answer, addr)


@asynccontextmanager
async def naming(address: str) -> AsyncIterator[Names]:
    """Serve a name."""
    loop = asyncio.get_running_loop()
    transport, names = await loop.create_datagram_endpoint(
        lambda: Names(address), local_addr=("127.0.0.1", 0)
    )
    try:
        yield names
    finally:
        transport.close()
