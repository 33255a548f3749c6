"""Round trips to one endpoint, and waiting until it is ready."""

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any

from kvtier.cli.connect import connected
from kvtier.cli.exit import CommandError, ExitCode, told_by
from kvtier.cli.latencies import Latencies
from kvtier.cli.options import Settings
from kvtier.client import NodeClient

_PAUSE = 0.2


class Pinged:
    """What came of the round trips to an endpoint.

    Attributes:
        endpoint: Where.
        ready: Whether it said last that it is ready; None while it has not answered.
        error: Why the last round trip that was lost was; None while none was.
        sent: Round trips that were tried.
        times: Of the answers.
    """

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.ready: bool | None = None
        self.error: CommandError | None = None
        self.times = Latencies()
        self.sent = 0

    def answered(self, seconds: float, *, ready: bool) -> None:
        """Take in an answer."""
        self.sent += 1
        self.times.add(seconds)
        self.ready = ready

    def lost(self, error: CommandError) -> None:
        """Take in that no answer came, and why."""
        self.sent += 1
        self.error = error

    def record(self) -> dict[str, Any]:
        """Return it as a record."""
        states = {None: "unreachable", True: "ready", False: "not ready"}
        return {
            "endpoint": self.endpoint,
            "state": states[self.ready],
            "sent": self.sent,
            "lost": self.sent - len(self.times),
            **self.times.record(),
        }


async def ping(
    pinged: Pinged,
    settings: Settings,
    count: int,
    interval: float,
    clock: Callable[[], float] = perf_counter,
) -> None:
    """Make so many round trips, so many seconds apart.

    One more before them makes the connection, and does not count.

    Raises:
        CommandError: When the endpoint cannot be one.
    """
    async with connected(pinged.endpoint, settings) as client:
        await _ask(client)
        for number in range(count):
            if number:
                await asyncio.sleep(interval)
            start = clock()
            answer = await _ask(client)
            if isinstance(answer, CommandError):
                pinged.lost(answer)
            else:
                pinged.answered(clock() - start, ready=answer)


async def wait_until_ready(endpoint: str, settings: Settings, seconds: float) -> None:
    """Wait until a node or a proxy says that it is ready.

    Raises:
        CommandError: When it does not in time, with what it said last.
    """
    last = "it did not answer"
    try:
        async with asyncio.timeout(seconds), connected(endpoint, settings) as client:
            while (answer := await _ask(client)) is not True:
                last = answer.what if answer else "it answers that it is not"
                await asyncio.sleep(_PAUSE)
    except TimeoutError:
        what = f"is not ready within {seconds:g} s: {last}"
        raise CommandError(endpoint, what, code=ExitCode.UNREACHABLE) from None


async def _ask(client: NodeClient) -> bool | CommandError:
    """Return whether a node is ready, or why it does not say."""
    try:
        with told_by(client.endpoint):
            return await client.is_ready()
    except CommandError as error:
        return error
