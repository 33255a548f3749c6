"""An event loop whose clock jumps to the next timer, so that waiting takes no time."""

import asyncio
import functools
import selectors
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import HealthCheck, settings


class _JumpingSelector(selectors.DefaultSelector):
    """Turns every wait for a timer into a jump of the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "every task waits for another"
            self.now += max(timeout, 0)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An asyncio loop on virtual time."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def virtual_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a test of a coroutine that runs on virtual time."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(test(*args, **kwargs))  # type: ignore[arg-type]

    return run


# Examples take as long as they take: a busy machine is no failure.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def now() -> float:
    return asyncio.get_running_loop().time()
