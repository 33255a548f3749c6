"""How a command ends: exit codes, and errors as one line each.

| code | meaning |
|---|---|
| 0 | done |
| 1 | failed |
| 2 | used wrongly: a flag, an argument, or a value that a node refused as malformed |
| 3 | not found: a namespace, tier or block |
| 4 | out of reach, or no answer within the deadline |
| 5 | not allowed |
| 6 | a difference was found |
| 130 | interrupted (Ctrl-C) |
| 141 | the reader of stdout had enough (`kvtier get blocks | head`); nothing is said |
| 143 | terminated (SIGTERM) |
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kvtier.wire.errors import KvtierError


class ExitCode(IntEnum):
    """What the caller's shell sees."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNREACHABLE = 4
    DENIED = 5
    DIFFERENCE = 6
    INTERRUPTED = 130
    PIPE_CLOSED = 141
    TERMINATED = 143


class Terminated(BaseException):
    """SIGTERM came; work in progress was cancelled."""


class CommandError(Exception):
    """A command that cannot go on: who says so, what is wrong, what to do.

    Attributes:
        code: The exit code.
    """

    def __init__(
        self,
        who: str,
        what: str,
        todo: str = "",
        *,
        reason: str = "",
        code: ExitCode = ExitCode.FAILED,
    ) -> None:
        super().__init__(what)
        self.who, self.what, self.todo, self.reason, self.code = who, what, todo, reason, code

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        todo = f"; {self.todo}" if self.todo else ""
        return " ".join(f"{self.who}: {self.what}{reason}{todo}".split())


_CODES = {
    "INVALID_ARGUMENT": ExitCode.USAGE,
    "NOT_FOUND": ExitCode.NOT_FOUND,
    "UNAVAILABLE": ExitCode.UNREACHABLE,
    "DEADLINE_EXCEEDED": ExitCode.UNREACHABLE,
    "UNAUTHENTICATED": ExitCode.DENIED,
    "PERMISSION_DENIED": ExitCode.DENIED,
}


def from_node(endpoint: str, error: "KvtierError") -> CommandError:
    """Return a node's refusal, or the failure to reach it, as a command's error."""
    code = _CODES.get(error.code.name, ExitCode.FAILED)
    reason = error.reason or error.code.name
    what, todo = error.message.removeprefix(f"{endpoint} ").rstrip(". "), ""
    if reason == "UNAVAILABLE":
        what, todo = "cannot be reached", "check that a node serves there, or name another with -e"
    elif reason == "DEADLINE_EXCEEDED":
        todo = "wait longer with --timeout"
    elif error.retry_after is not None:
        todo = f"retry in {error.retry_after:g} s"
    return CommandError(endpoint, what, todo, reason=reason, code=code)


@contextmanager
def told_by(endpoint: str) -> Iterator[None]:
    """Turn the errors of the calls inside into command errors that name the endpoint."""
    from kvtier.wire.errors import KvtierError  # noqa: PLC0415 - keeps gRPC out of `--help`

    try:
        yield
    except KvtierError as error:
        raise from_node(endpoint, error) from error


def report(error: CommandError) -> None:
    """Write an error as one line on stderr."""
    print(f"error: {error}", file=sys.stderr)  # noqa: T201 - this is the command line


def conclude(error: BaseException) -> int:
    """Tell on stderr why the command ends, if there is anything to tell; return the exit code.

    Raises:
        BaseException: The error itself, when it is none that a command expects: a defect.
    """
    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case click.Abort() | KeyboardInterrupt():
            return ExitCode.INTERRUPTED
        case Terminated():
            return ExitCode.TERMINATED
        case BrokenPipeError():
            _silence_stdout()
            return ExitCode.PIPE_CLOSED
        case click.UsageError():
            failure = _usage(error)
        case click.ClickException():
            failure = CommandError("kvtier", error.format_message().rstrip("."))
        case CommandError():
            failure = error
        case OSError():
            failure = CommandError("kvtier", _os_error(error))
        case _:
            raise error
    report(failure)
    return failure.code


def _usage(error: click.UsageError) -> CommandError:
    path = error.ctx.command_path if error.ctx else "kvtier"
    what = error.format_message().rstrip(".")
    return CommandError(path, what, f"see '{path} --help'", code=ExitCode.USAGE)


def _os_error(error: OSError) -> str:
    what = error.strerror or str(error)
    return f"{error.filename}: {what}" if error.filename else what


def _silence_stdout() -> None:
    # The interpreter flushes stdout once more at exit, and would complain there.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
