"""Redis over TCP: one pipeline of SET, or one MGET, for each batch."""

import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

NAME = "Redis"
_PATIENCE = 10.0
_COMMAND = ("--save", "", "--appendonly", "no", "--bind", "127.0.0.1")


def missing() -> str:
    """Return what Redis needs here."""
    if not _server():
        return "there is no redis-server; install Debian's package of that name"
    if find_spec("redis") is None or find_spec("hiredis") is None:
        return "its client is not there; pip install redis hiredis"
    return ""


def open() -> "Redis":  # noqa: A001 - as the measurements call it
    """Start the server and connect."""
    return Redis()


class Redis:
    """A `Contender`."""

    def __init__(self) -> None:
        import redis  # noqa: PLC0415 - only where it is there

        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self._process = subprocess.Popen(
            [_server(), "--port", str(port), *_COMMAND],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.servers = [self._process.pid]
        self._client: Any = redis.Redis("127.0.0.1", port, socket_timeout=60)
        self._keys: list[bytes] = []
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                self._client.ping()
            except redis.ConnectionError:
                if time.monotonic() > deadline:
                    self.close()
                    raise
                time.sleep(0.02)
            else:
                return

    def put(self, blocks: Sequence[memoryview]) -> None:
        """See `Contender`."""
        self._keys = [b"%d" % place for place in range(len(blocks))]
        pipeline = self._client.pipeline(transaction=False)
        for key, block in zip(self._keys, blocks, strict=True):
            pipeline.set(key, block)
        pipeline.execute()

    def get(self) -> Sequence[bytes]:
        """See `Contender`."""
        blocks: list[bytes] = self._client.mget(self._keys)
        return blocks

    def close(self) -> None:
        """See `Contender`."""
        self._client.close()
        self._process.terminate()
        self._process.wait()


def _server() -> str:
    return shutil.which("redis-server") or ""
