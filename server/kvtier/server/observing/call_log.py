"""The log lines of calls: whose they are, and which calls were refused."""

import random
import re
from types import TracebackType

import grpc
import structlog
from structlog.contextvars import bind_contextvars

from kvtier.server.observing.rationing import Ration
from kvtier.server.services.calls import Call
from kvtier.server.services.outcome import refusal
from kvtier.wire.errors import KvtierError, Reason

REQUEST_ID = "x-request-id"
_SHORT_AND_PRINTABLE = re.compile(r"[!-~]{1,64}")
_LINES, _SECONDS = 10, 10.0
_MESSAGE_CHARACTERS = 300
# What a caller did wrong, or is not to do; the rest is the ordinary course of things.
_LEVELS = {
    grpc.StatusCode.INVALID_ARGUMENT: "info",
    grpc.StatusCode.FAILED_PRECONDITION: "info",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "info",
    grpc.StatusCode.UNIMPLEMENTED: "info",
    grpc.StatusCode.UNAUTHENTICATED: "warning",
    grpc.StatusCode.PERMISSION_DENIED: "warning",
}
_REASONS = frozenset(map(str, Reason))

_log = structlog.get_logger(__name__)


class CallLog:
    """A guard that gives each call an id, and logs refused calls.

    The id is the caller's, from the metadata `x-request-id`, when that is at most 64 printable
    characters, else a random one. Every line that the call causes has it, and the caller gets it
    back in the trailers. Of each reason for a refusal there are ten lines in ten seconds, and then
    one that tells how many were left out.

    Args:
        rng: Source of the ids.
    """

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()  # noqa: S311 - ids of calls are no secrets
        self._ration = Ration(_LINES, _SECONDS, _tell_left_out)

    def __call__(self, call: Call) -> "_Logged":
        """Return what is around a call."""
        return _Logged(self, call)

    def begin(self, call: Call) -> None:
        """Give a call its id."""
        request_id = _given_id(call) or f"{self._rng.getrandbits(64):016x}"
        bind_contextvars(request_id=request_id, rpc=call.method.full_name)
        call.context.set_trailing_metadata(((REQUEST_ID, request_id),))

    def refused(self, call: Call, error: KvtierError) -> None:
        """Log a refused call, unless there were many."""
        level = _LEVELS.get(error.code, "debug")
        # One that another server made up is no kind of its own.
        reason = error.reason if error.reason in _REASONS else error.code.name
        if level == "debug" or self._ration.admits(reason):
            getattr(_log, level)(
                "refused",
                code=error.code.name,
                reason=reason,
                message=error.message[:_MESSAGE_CHARACTERS],
                caller=call.caller,
                peer=call.context.peer(),
            )

    def close(self) -> None:
        """Tell what was left out so far."""
        self._ration.close()


class _Logged:
    __slots__ = ("_call", "_log")

    def __init__(self, log: CallLog, call: Call) -> None:
        self._log = log
        self._call = call

    def __enter__(self) -> None:
        self._log.begin(self._call)

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        failure: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        error = refusal(self._call, failure) if failure is not None else None
        if error is not None:
            self._log.refused(self._call, error)


def _given_id(call: Call) -> str | None:
    for key, value in call.context.invocation_metadata() or ():
        if key == REQUEST_ID and isinstance(value, str) and _SHORT_AND_PRINTABLE.fullmatch(value):
            return value
    return None


def _tell_left_out(reason: str, left_out: int) -> None:
    _log.warning("refused calls were not logged", reason=reason, calls=left_out)
