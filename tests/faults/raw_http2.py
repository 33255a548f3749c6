"""HTTP/2 by hand, for what no client of gRPC sends."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_END_STREAM, _END_HEADERS = 1, 4
_EMPTY_MESSAGE = bytes(5)
_SECONDS = 2.0

Field = tuple[bytes, bytes]


async def call(endpoint: str, path: bytes, *metadata: Field) -> bytes:
    """Make a call without anything in its request, and return what comes back for a moment."""
    host, _, port = endpoint.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(opening(path, metadata) + _frame(_DATA, _END_STREAM, 1, _EMPTY_MESSAGE))
        return await _answer(reader)
    finally:
        writer.transport.abort()


@asynccontextmanager
async def silent(endpoint: str, path: bytes) -> AsyncIterator[asyncio.StreamReader]:
    """Begin a call, and send no request."""
    host, _, port = endpoint.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(opening(path))
        yield reader
    finally:
        writer.transport.abort()


def opening(path: bytes, metadata: Sequence[Field] = ()) -> bytes:
    """What a connection and a call on it begin with."""
    pseudo = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path)]
    needed = [
        (b":authority", b"node"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    ]
    block = b"".join(_literal(*field) for field in (*pseudo, *needed, *metadata))
    return _PREFACE + _frame(_SETTINGS, 0, 0, b"") + _frame(_HEADERS, _END_HEADERS, 1, block)


async def _answer(reader: asyncio.StreamReader) -> bytes:
    told = b""
    with suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(_SECONDS):
            while b"grpc-status" not in told and (data := await reader.read(1 << 16)):
                told += data
    return told


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return b"".join(
        (len(payload).to_bytes(3, "big"), bytes([kind, flags]), stream.to_bytes(4, "big"), payload)
    )


def _literal(name: bytes, value: bytes) -> bytes:
    return b"\0" + _text(name) + _text(value)


def _text(text: bytes) -> bytes:
    assert len(text) < 127, "longer ones have another form"
    return bytes([len(text)]) + text
