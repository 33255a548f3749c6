"""A relay between clients and an S3 server, which does to requests what a test plans."""

import os
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import NamedTuple, Self

from tests.s3 import faults
from tests.s3.faults import Fault, Kind, Plan, Request

_NO_LINGER = struct.pack("ii", 1, 0)
_OWN_HEADERS = {"connection", "transfer-encoding"}
_PATIENCE = 60.0


class Relay:
    """Passes requests and answers on, one by one.

    Attributes:
        target: The URL of the server.
        plan: What to do to the next requests.
        requests: Those that came so far.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self.plan: Plan = faults.none
        self.requests: list[Request] = []
        self.freed = Event()
        self._port = 0
        self._server: _Server | None = None

    @property
    def endpoint(self) -> str:
        """The relay's own URL."""
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def up(self) -> None:
        """Listen."""
        self.freed.clear()
        self._server = _Server(self, self._port)
        self._port = self._server.server_address[1]
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def down(self) -> None:
        """Reset all connections; new ones are refused."""
        self.freed.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.reset_all()
            self._server = None

    def forward(self, request: "_Handler") -> "_Answer":
        """Have the server answer a request."""
        host, _, port = self.target.removeprefix("http://").rpartition(":")
        connection = HTTPConnection(host, int(port), timeout=_PATIENCE)
        try:
            connection.putrequest(
                request.command, request.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in request.headers.items():
                connection.putheader(name, value)
            connection.endheaders(request.body)
            answer = connection.getresponse()
            return _Answer(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()


class _Answer(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, relay: Relay, port: int) -> None:
        self.relay = relay
        self.connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of connections that break: they do so by plan."""

    def reset_all(self) -> None:
        for connection in self.connections.copy():
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server
    body: bytes

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        super().finish()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _handle(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("content-length", 0)))
        request = Request(self.command, self.path)
        self.server.relay.requests.append(request)
        fault = self.server.relay.plan(request)
        if fault is None:
            self._answer(self._forward())
        else:
            _DO[fault.kind](self, fault)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle  # noqa: N815 - named by the library

    def _forward(self) -> _Answer:
        return self.server.relay.forward(self)

    def _answer(self, answer: _Answer, most: int | None = None) -> None:
        """Send an answer, or so many bytes of its body."""
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            if name.lower() not in _OWN_HEADERS:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body[:most])

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.server.connections.discard(self.connection)
        os.close(self.connection.detach())

    def _hang(self, _: Fault) -> None:
        self.server.relay.freed.wait(_PATIENCE)
        self._reset()

    def _refuse(self, fault: Fault) -> None:
        # Like a real server, it tells the client what that sent.
        sent = self.headers.get("authorization", "")
        body = f"<Error><Code>{fault.code}</Code><Message>{sent}</Message></Error>".encode()
        self._answer(_Answer(int(fault.amount), [("Content-Length", str(len(body)))], body))

    def _delay(self, fault: Fault) -> None:
        time.sleep(fault.amount)
        self._answer(self._forward())

    def _lose(self, _: Fault) -> None:
        self._forward()
        self._reset()

    def _mute(self, fault: Fault) -> None:
        self._forward()
        self._hang(fault)

    def _cut(self, fault: Fault) -> None:
        self._answer(self._forward(), int(fault.amount))
        self._reset()

    def _flip(self, fault: Fault) -> None:
        answer = self._forward()
        changed = bytearray(answer.body)
        if changed:
            changed[int(fault.amount) % len(changed)] ^= 1
        self._answer(answer._replace(body=bytes(changed)))


_DO: dict[Kind, Callable[[_Handler, Fault], None]] = {
    Kind.RESET: lambda handler, _: handler._reset(),
    Kind.HANG: _Handler._hang,
    Kind.STATUS: _Handler._refuse,
    Kind.DELAY: _Handler._delay,
    Kind.LOSE: _Handler._lose,
    Kind.MUTE: _Handler._mute,
    Kind.CUT: _Handler._cut,
    Kind.FLIP: _Handler._flip,
}
