"""How many followers there may be, and calls that outlive theirs."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from kvtier.wire.errors import Reason, over_limit


class Send(Protocol):
    """Sends the messages of one call."""

    def __call__(self, message: bytes, /) -> Awaitable[None]:
        """Send one encoded WatchEventsResponse; may wait for the follower to read."""
        ...

    def when_over(self, act: Callable[[], None]) -> None:
        """Call back when nothing of the call is left, not even an unread status."""
        ...


class Admission:
    """Lets followers in, up to a limit.

    A follower that was given up and whose peer keeps the call open without reading it is no
    follower any more, but gRPC can neither take back what it was sent nor end its call. There may
    be as many of those as followers.

    Args:
        whose: Who is followed, such as "node a".
        limit: Most followers at one time.

    Attributes:
        followers: Followers now.
    """

    def __init__(self, whose: str, limit: int) -> None:
        self.followers = 0
        self._whose = whose
        self._limit = limit
        self._calls = 0

    @contextmanager
    def let_in(self, send: Send) -> Iterator[None]:
        """Count a follower for as long as it is followed with.

        Raises:
            KvtierError: RESOURCE_EXHAUSTED when there are too many.
        """
        self._check()
        self._calls += 1
        send.when_over(self._call_is_over)
        self.followers += 1
        try:
            yield
        finally:
            self.followers -= 1

    def _check(self) -> None:
        followers, limit = self.followers, self._limit
        if followers < limit and self._calls < 2 * limit:
            return
        given_up = self._calls - followers
        raise over_limit(
            "followers",
            f"{self._whose} has {followers} followers and {given_up} that were given "
            f"up and still hold their call; the limit of each is {limit}: raise limits.followers, "
            "or end calls that nobody reads",
            Reason.FOLLOWER_LIMIT,
            retry_after=1.0,
        )

    def _call_is_over(self) -> None:
        self._calls -= 1
