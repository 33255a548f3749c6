"""The address of the metrics: HTTP, and nothing but GET /metrics."""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from kvtier.server.config.addresses import split_endpoint
from kvtier.server.serving.starting import StartError

# Text, and the type of its content, for the Accept header of a request.
Render = Callable[[str], Awaitable[tuple[bytes, str]]]

_SECONDS = 5.0
_HEAD_BYTES = 16 << 10
_MOST_CONNECTIONS = 16
_PATH = "/metrics"


class MetricsEndpoint:
    """Serves the metrics, one request a connection.

    A scraper that stands still is left after five seconds, and there are few connections at one
    time: what goes wrong here costs the node nothing.

    Args:
        render: Makes the text.
    """

    def __init__(self, render: Render) -> None:
        self._render = render
        self._connections = 0
        self._server: asyncio.Server | None = None

    async def start(self, listen: str) -> str:
        """Bind an address, HOST:PORT, and return it with the real port.

        Raises:
            StartError: When it cannot be bound.
        """
        host, port = split_endpoint(listen)
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=_HEAD_BYTES)
        except OSError as error:
            raise StartError(
                f"cannot listen on {listen} for metrics: {(error.strerror or str(error)).lower()}; "
                "choose another address in metrics_listen"
            ) from None
        bound = self._server.sockets[0].getsockname()[1]
        return f"{listen.rpartition(':')[0]}:{bound}"

    async def close(self) -> None:
        """Serve no more."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= _MOST_CONNECTIONS:
                async with asyncio.timeout(_SECONDS):
                    writer.write(await self._answer(reader))
                    await writer.drain()
                    # Until then what is left to send keeps the connection.
                    writer.close()
                    await writer.wait_closed()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            self._connections -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        request, *fields = head.decode("latin-1").split("\r\n")
        method, _, rest = request.partition(" ")
        path, _, protocol = rest.rpartition(" ")
        if not protocol.startswith("HTTP/1."):
            return _response(HTTPStatus.BAD_REQUEST)
        if path.partition("?")[0] != _PATH:
            return _response(HTTPStatus.NOT_FOUND)
        if method != "GET":
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, more="Allow: GET\r\n")
        text, kind = await self._render(_accepted(fields))
        return _response(HTTPStatus.OK, text, kind)


def _accepted(fields: list[str]) -> str:
    """Return what the Accept header says; empty when there is none."""
    named = (field.partition(":") for field in fields)
    return next((value.strip() for name, _, value in named if name.lower() == "accept"), "")


def _response(
    status: HTTPStatus, body: bytes = b"", kind: str = "text/plain", more: str = ""
) -> bytes:
    body = body or f"{status.phrase}; the metrics are at {_PATH}\n".encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n{more}\r\n"
    )
    return head.encode("latin-1") + body
