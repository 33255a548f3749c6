"""How a command ends: exit codes, and errors as one line each.

| code | meaning |
|---|---|
| 0 | done |
| 1 | failed |
| 2 | used wrongly: a flag, an argument, or a value that a node refused as malformed |
| 3 | not found: a namespace, tier or block |
| 4 | out of reach, or no answer within the deadline |
| 5 | not allowed, or TLS could not be agreed on |
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

from kvtier.wire.handshakes import why_no_plaintext

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
        details: Further facts, which stand behind the rest.
    """

    def __init__(
        self,
        who: str,
        what: str,
        todo: str = "",
        *,
        reason: str = "",
        code: ExitCode = ExitCode.FAILED,
        details: str = "",
    ) -> None:
        super().__init__(what)
        self.who, self.what, self.todo, self.reason, self.code = who, what, todo, reason, code
        self.details = details

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        todo = f"; {self.todo}" if self.todo else ""
        details = f" [{self.details}]" if self.details else ""
        return " ".join(f"{self.who}: {self.what}{reason}{todo}{details}".split())


_CODES = {
    "INVALID_ARGUMENT": ExitCode.USAGE,
    "NOT_FOUND": ExitCode.NOT_FOUND,
    "UNAVAILABLE": ExitCode.UNREACHABLE,
    "DEADLINE_EXCEEDED": ExitCode.UNREACHABLE,
    "UNAUTHENTICATED": ExitCode.DENIED,
    "PERMISSION_DENIED": ExitCode.DENIED,
}
# The node answers well; it is one of its tiers that does not.
_BY_REASON = {
    "TIER_READ_ONLY": ExitCode.FAILED,
    "TIER_RECOVERING": ExitCode.FAILED,
    # It is there, and waiting for it does not help.
    "TLS_HANDSHAKE": ExitCode.DENIED,
}


def from_node(endpoint: str, error: "KvtierError", *, verbose: bool = False) -> CommandError:
    """Return a node's refusal, or the failure to reach it, as a command's error.

    Args:
        endpoint: The node.
        error: The error.
        verbose: Whether to tell all that is known of it.
    """
    code = _BY_REASON.get(error.reason) or _CODES.get(error.code.name, ExitCode.FAILED)
    reason = error.reason or error.code.name
    what, todo = error.message.removeprefix(f"{endpoint} ").rstrip(". "), ""
    if reason == "UNAVAILABLE":
        what, todo = "cannot be reached", "check that a node serves there, or name another with -e"
        if why_no_plaintext(error.message):
            todo = "it may serve TLS: name its authorities with --cacert, or give --tls"
    elif reason == "DEADLINE_EXCEEDED":
        todo = "wait longer with --timeout"
    elif reason == "NO_IDENTITY":
        todo = "name a token with --token-file, or a certificate with --cert and --key"
    elif error.retry_after is not None:
        todo = f"retry in {error.retry_after:g} s"
    details = _details(error) if verbose else ""
    return CommandError(endpoint, what, todo, reason=reason, code=code, details=details)


def _details(error: "KvtierError") -> str:
    facts = [f"{key}={value}" for key, value in error.metadata.items() if key != "endpoint"]
    return ", ".join([f"{error.code.name}: {error.message}", *facts])


@contextmanager
def told_by(endpoint: str, *, verbose: bool = False) -> Iterator[None]:
    """Turn the errors of the calls inside into command errors that name the endpoint.

    Args:
        endpoint: The node.
        verbose: Whether to tell all that is known of an error.
    """
    from kvtier.wire.errors import KvtierError  # noqa: PLC0415 - keeps gRPC out of `--help`

    try:
        yield
    except KvtierError as error:
        raise from_node(endpoint, error, verbose=verbose) from error


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
