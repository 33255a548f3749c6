"""Processes that do what they are told, one order at a time."""

import multiprocessing
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, NamedTuple, Self

_CONTEXT = multiprocessing.get_context("spawn")
_PATIENCE = 300.0


class Worker:
    """A process of its own, with a pipe for orders and answers.

    Args:
        main: Runs in the process, with its end of the pipe and the arguments. It answers each order
            it reads, a tuple of a word and arguments, and ends when it reads None.
        arguments: Must pickle.
    """

    def __init__(self, main: Callable[..., None], *arguments: Any) -> None:
        self._pipe, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=main, args=(theirs, *arguments), daemon=True)
        self._process.start()
        theirs.close()

    def tell(self, *order: Any) -> None:
        """Give an order and go on."""
        self._pipe.send(order)

    def answer(self) -> Any:
        """Wait for the answer to the oldest order.

        Raises:
            TimeoutError: When it takes minutes.
            EOFError: When the process died.
        """
        if not self._pipe.poll(_PATIENCE):
            raise TimeoutError("a process of the benchmark does not answer")
        return self._pipe.recv()

    @property
    def answered(self) -> bool:
        """Whether an answer lies ready."""
        return self._pipe.poll()

    def ask(self, *order: Any) -> Any:
        """Give an order and wait for the answer."""
        self.tell(*order)
        return self.answer()

    def close(self) -> None:
        """End the process."""
        with suppress(OSError):  # it is gone already
            self._pipe.send(None)
        self._process.join(10)
        self._process.kill()
        self._process.join()


class Team(NamedTuple):
    """A source of events and its followers."""

    source: Worker
    followers: Sequence[Worker]

    def ask_followers(self, *order: Any) -> list[Any]:
        """Give all followers an order and wait for every answer."""
        for follower in self.followers:
            follower.tell(*order)
        return [follower.answer() for follower in self.followers]


class Workers:
    """Starts processes, and ends them all on leaving."""

    def __init__(self) -> None:
        self._started = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._started.close()

    def start(self, main: Callable[..., None], *arguments: Any) -> Worker:
        """Start a process."""
        worker = Worker(main, *arguments)
        self._started.callback(worker.close)
        return worker


def obey(pipe: Connection, servant: object) -> None:
    """Answer each order by what the servant's method of that name returns."""
    while (order := pipe.recv()) is not None:
        word, *arguments = order
        pipe.send(getattr(servant, word)(*arguments))
