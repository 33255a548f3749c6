"""Calls that anybody may make, and that hold something until their request comes."""

import asyncio

from kvtier.server.services.calls import Call
from kvtier.wire.errors import invalid

_SECONDS = 5.0


class Promptness:
    """A guard that ends calls whose request does not come soon.

    Args:
        seconds: How long it may take.
    """

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._seconds = seconds

    def __call__(self, call: Call) -> "_Timed":
        """Return what is around a call."""
        return _Timed(call, self._seconds)


class _Timed:
    __slots__ = ("_call", "_seconds", "_timer")

    def __init__(self, call: Call, seconds: float) -> None:
        self._call = call
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        late = invalid(f"no request came within {self._seconds:g} s; send one message")
        later = asyncio.get_running_loop().call_later
        self._timer = timer = later(self._seconds, self._call.end, late)
        # Nothing of this: it would be a circle.
        self._call.allow = lambda _: timer.cancel()

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
