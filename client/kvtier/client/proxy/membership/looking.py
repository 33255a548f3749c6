"""Looking again and again who is there."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable

from kvtier.client.arguments import bad_argument
from kvtier.client.proxy.membership.endpoints import Endpoints
from kvtier.wire.errors import quote

Look = Callable[[], Awaitable[Endpoints | None]]
"""Tells who is there, None when there is no news; raises UnclearError when it cannot be told."""


class UnclearError(Exception):
    """Who is there cannot be told just now; the message says why."""


def warn(why: str) -> None:
    """Tell in the log why a list is not renewed."""
    logging.getLogger("kvtier.client.proxy").warning("%s", why)


def look_out(
    look: Look,
    *,
    interval: float,
    sleep: Callable[[float], Awaitable[None]],
    tell: Callable[[str], None],
) -> AsyncGenerator[Endpoints]:
    """Return who is there, from the first look on, and again whenever it changed.

    Args:
        look: Looks once.
        interval: Seconds from one look to the next.
        sleep: Waits for seconds.
        tell: Told why it is unclear who is there, once for each reason until it is clear again.

    Raises:
        InvalidArgumentError: When the interval is not above 0.
    """
    if not interval > 0:
        raise bad_argument(f"interval must be more than 0 s; got {quote(interval)}")
    return _look_out(look, interval, sleep, tell)


async def _look_out(
    look: Look,
    interval: float,
    sleep: Callable[[float], Awaitable[None]],
    tell: Callable[[str], None],
) -> AsyncGenerator[Endpoints]:
    known: Endpoints | None = None
    told: set[str] = set()
    while True:
        try:
            found = await look()
        except UnclearError as error:
            found = None
            if str(error) not in told:
                told.add(str(error))
                tell(str(error))
        if found is not None:
            told.clear()
            if found != known:
                known = found
                yield found
        await sleep(interval)
