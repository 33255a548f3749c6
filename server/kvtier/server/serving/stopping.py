"""The last step of a stop: what is under way ends, and everybody hears why nothing else does."""

import asyncio
from collections.abc import Callable

from kvtier.server.services.limits import CallLimits
from kvtier.server.serving.front import Front
from kvtier.server.serving.listening import leave
from kvtier.wire.errors import KvtierError

_GRACE = 0.5
_LAST_WORDS = 0.3


class Stop:
    """Stops a server; to be made when it begins to drain.

    gRPC ends a call that comes, or is under way, while a server closes, with CANCELLED, which says
    nothing. So whoever is still calling hears the reason for a moment before it does.

    Args:
        server: The server.
        calls: The calls under way.
        why: Makes what they end with.
    """

    def __init__(self, server: Front, calls: CallLimits, why: Callable[[], KvtierError]) -> None:
        self._server = server
        self._calls = calls
        self._why = why
        self._begun = calls.begun

    async def end(self, address: str, *, hurried: bool) -> None:
        """Refuse further calls, let those under way end for a moment, and end the rest.

        Args:
            address: Where the server listens.
            hurried: Wait for nothing.
        """
        grace = 0.0 if hurried else _GRACE
        self._calls.close(self._why)
        if self._calls.begun != self._begun:
            await asyncio.sleep(grace)
        stopping = asyncio.create_task(self._server.stop(grace + _LAST_WORDS))
        await asyncio.wait([stopping], timeout=grace)
        self._calls.end_all(self._why)
        await stopping
        leave(address)
