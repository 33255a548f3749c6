"""Members by a file, such as a ConfigMap that is mounted."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

from kvtier.client.proxy.membership.endpoints import Endpoints, parse_endpoints
from kvtier.client.proxy.membership.looking import UnclearError, look_out, warn

_MOST_BYTES = 1 << 20


def watched_file(
    path: Path | str,
    interval: float = 2.0,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    tell: Callable[[str], None] = warn,
) -> AsyncGenerator[Endpoints]:
    """Return the endpoints that a file names, in its order, whenever they changed.

    The file has one HOST:PORT a line; `#` begins a comment. It may be written in place, or replaced
    by a rename or behind a symbolic link, as a ConfigMap is. A change counts when two looks found
    the same, so that half a file is not taken for a whole one. A file that is missing, empty or
    malformed changes nothing: the last list stays. Before the first good one nothing is returned.

    Args:
        path: The file.
        interval: Seconds from one look to the next.
        sleep: Waits for seconds.
        tell: Told, once for each reason, why the list is not renewed.

    Raises:
        InvalidArgumentError: When the interval is not above 0.
    """
    look = _File(Path(path)).look
    return look_out(look, interval=interval, sleep=sleep, tell=tell)


class _File:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: bytes | None = None
        self._begun = False

    async def look(self) -> Endpoints | None:
        """Return whom the file names, or None while it is being changed."""
        before, self._seen = self._seen, await asyncio.to_thread(_read, self._path)
        if self._begun and self._seen != before:
            return None
        endpoints = _named(self._path, self._seen)
        self._begun = True
        return endpoints


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise _unclear(path, error.strerror) from None


def _named(path: Path, data: bytes) -> Endpoints:
    if len(data) > _MOST_BYTES:
        raise _unclear(path, f"it is larger than {_MOST_BYTES} bytes")
    try:
        return parse_endpoints(data.decode())
    except UnicodeError:
        raise _unclear(path, "it is not UTF-8") from None
    except ValueError as error:
        raise _unclear(path, error) from None


def _unclear(path: Path, why: object) -> UnclearError:
    return UnclearError(f"{path}: {why}; the last nodes stay")
