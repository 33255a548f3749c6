"""A call, as what is around all calls sees it: who makes it, and what may still stop it."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

from google.protobuf.descriptor import MethodDescriptor

from kvtier.wire.errors import KvtierError

if TYPE_CHECKING:
    import grpc.aio

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class Call:
    """One call, from before its first request is read until its status is known.

    Args:
        method: The RPC.
        context: gRPC's side of the call.

    Attributes:
        method: As given.
        context: As given.
        caller: Who makes the call, in one word: for limits, and for the log. Until it is known by
            a better name, the address that the call comes from.
        allow: Called with each parsed request before anything is done for it; raises to refuse.
        ended: Why the call was ended from outside.
    """

    __slots__ = ("_task", "allow", "caller", "context", "ended", "method")

    def __init__(self, method: MethodDescriptor, context: Context) -> None:
        self.method = method
        self.context = context
        self.caller = context.peer()
        self.allow: Callable[[Any], None] = _allow
        self.ended: KvtierError | None = None
        self._task = asyncio.current_task()

    def end(self, error: KvtierError) -> None:
        """End the call now, with this error as its status."""
        self.ended = error
        if self._task is not None:
            self._task.cancel()


Guard = Callable[[Call], AbstractContextManager[None]]
"""What is around a call: entered before its request is read, and left with its outcome.

It refuses a call by raising as it is entered; a call that failed leaves it with its exception.
"""


def _allow(_request: Any) -> None:
    """Allow every request."""
