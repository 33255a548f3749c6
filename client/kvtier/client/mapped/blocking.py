"""Storing and loading blocks of one tier, for callers that block."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

from kvtier.client.mapped.blocks import Blocks
from kvtier.client.reports import BlockViews

P = ParamSpec("P")
T = TypeVar("T")


class Run(Protocol):
    """Runs a coroutine on a loop in the background and waits for it."""

    def __call__(self, start: Callable[[], Coroutine[Any, Any, T]], /) -> T:
        """Return what the coroutine returns."""


def _blocking(
    method: Callable[Concatenate[Blocks, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["BlockingBlocks", P], T]:
    @wraps(method)
    def call(mine: "BlockingBlocks", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return mine._run(lambda: method(mine._blocks, *args, **kwargs))  # noqa: SLF001 - its methods

    return call


def _reading(
    method: Callable[Concatenate[Blocks, P], AbstractAsyncContextManager[BlockViews]],
) -> Callable[Concatenate["BlockingBlocks", P], AbstractContextManager[BlockViews]]:
    @contextmanager
    @wraps(method)
    def call(mine: "BlockingBlocks", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[BlockViews]:
        run, context = mine._run, method(mine._blocks, *args, **kwargs)  # noqa: SLF001 - its methods
        views = run(lambda: _enter(context))
        try:
            yield views
        except BaseException as raised:
            error = raised
            run(lambda: _leave(context, error))
            raise
        run(lambda: _leave(context, None))

    return call


class BlockingBlocks:
    """`Blocks` for callers that block: every method by its name.

    Use it as a context manager, or call `close()`, before the client is closed.

    Args:
        blocks: What does the work.
        run: How its coroutines are run.
    """

    def __init__(self, blocks: Blocks, run: Run) -> None:
        self._blocks = blocks
        self._run = run

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    close = _blocking(Blocks.close)
    store = _blocking(Blocks.store)
    store_many = _blocking(Blocks.store_many)
    load = _blocking(Blocks.load)
    load_many = _blocking(Blocks.load_many)

    read = _reading(Blocks.read)


async def _enter(context: AbstractAsyncContextManager[BlockViews]) -> BlockViews:
    return await context.__aenter__()


async def _leave(
    context: AbstractAsyncContextManager[BlockViews], error: BaseException | None
) -> None:
    kind, trace = (type(error), error.__traceback__) if error else (None, None)
    await context.__aexit__(kind, error, trace)
