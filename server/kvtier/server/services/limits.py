"""How many calls may be under way at one time: of one caller, and of all."""

from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from kvtier.server.callers import caller
from kvtier.server.services.calls import Call
from kvtier.wire.errors import LIMIT, KvtierError, Reason, over_limit

_RETRY = 0.5
_FOLLOWER_RETRY = 1.0
_WATCH = "WatchEvents"
_INTERNET = ("ipv4:", "ipv6:")
# The limits of whatever serves followers.
COMMON_LIMITS = ("calls", "calls_per_caller", "followers", "followers_per_caller")


class CallSettings(Protocol):
    """The settings under `limits` that are kept here."""

    @property
    def calls(self) -> int:
        """Calls under way at one time."""
        ...

    @property
    def calls_per_caller(self) -> int:
        """The same of one caller."""
        ...

    @property
    def followers_per_caller(self) -> int:
        """Calls of followers of one caller, until nothing of them is left."""
        ...


class CallLimits:
    """The guard that counts calls, and refuses those beyond a limit before they are read.

    Args:
        settings: The limits.
        limited: Where refusals are counted, by the limits that are in it.

    Attributes:
        limited: As given.
        begun: Calls that were let in so far.
    """

    def __init__(self, settings: CallSettings, limited: Counter[str]) -> None:
        self.limited = limited
        self.begun = 0
        self._most = settings.calls
        self._per_caller = settings.calls_per_caller
        self._followers = settings.followers_per_caller
        self._by_caller: dict[str, int] = {}
        self._following: dict[str, int] = {}
        self._under_way: set[Call] = set()
        self._why_closed: Callable[[], KvtierError] | None = None

    def __call__(self, call: Call) -> "_Place":
        """Give a call a place for as long as its body runs, and its context the caller's name.

        Raises:
            KvtierError: RESOURCE_EXHAUSTED when there is none; what `close` was given.
        """
        if self._why_closed is not None:
            raise self._why_closed()
        who = host_of(call.caller)
        mine = self._by_caller.get(who, 0)
        try:
            if mine >= self._per_caller:
                raise _too_many(f"caller {who} has", self._per_caller, "calls_per_caller")
            if len(self._under_way) >= self._most:
                raise _too_many("all callers have", self._most, "calls")
            if call.method.name == _WATCH:
                self._let_follow(call, who)
        except KvtierError as error:
            count_refusal(self.limited, error)
            raise
        caller.set(who)
        self.begun += 1
        self._under_way.add(call)
        self._by_caller[who] = mine + 1
        return _Place(self, call, who)

    @property
    def calls(self) -> int:
        """Calls under way."""
        return len(self._under_way)

    def close(self, why: Callable[[], KvtierError]) -> None:
        """Refuse every further call, with an error that is made for each."""
        self._why_closed = why

    def end_all(self, why: Callable[[], KvtierError]) -> None:
        """End all calls under way, with an error that is made for each."""
        for call in list(self._under_way):
            call.end(why())

    def leave(self, call: Call, who: str) -> None:
        """Give the place of a call back."""
        self._under_way.discard(call)
        _take_one(self._by_caller, who)

    def _let_follow(self, call: Call, who: str) -> None:
        count = self._following.get(who, 0)
        if count >= self._followers:
            raise over_limit(
                "followers_per_caller",
                f"caller {who} follows {count} times, which is the limit: end calls that nobody "
                "reads, or raise limits.followers_per_caller",
                Reason.FOLLOWER_LIMIT,
                retry_after=_FOLLOWER_RETRY,
            )
        self._following[who] = count + 1
        # The stubs want a class of theirs that does not exist.
        call.context.add_done_callback(lambda _: _take_one(self._following, who))  # type: ignore[arg-type]


class _Place:
    """The place of one call."""

    __slots__ = ("_call", "_limits", "_who")

    def __init__(self, limits: CallLimits, call: Call, who: str) -> None:
        self._limits = limits
        self._call = call
        self._who = who

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._limits.leave(self._call, self._who)
        if error is not None:
            count_refusal(self._limits.limited, error)


def count_refusal(limited: Counter[str], error: BaseException) -> None:
    """Count an error by the limit that it names, if it names one that is counted here."""
    limit = error.metadata.get(LIMIT, "") if isinstance(error, KvtierError) else ""
    if limit in limited:
        limited[limit] += 1


def host_of(who: str) -> str:
    """Return a caller without the port of its connection, so that all of them are one caller."""
    return who.rpartition(":")[0] if who.startswith(_INTERNET) else who


def _take_one(counts: dict[str, int], who: str) -> None:
    left = counts[who] - 1
    if left:
        counts[who] = left
    else:
        del counts[who]


def _too_many(who: str, count: int, limit: str) -> KvtierError:
    return over_limit(
        limit,
        f"{who} {count} calls under way, which is the limit: wait for some, or raise "
        f"limits.{limit}",
        Reason.CALL_LIMIT,
        retry_after=_RETRY,
    )
