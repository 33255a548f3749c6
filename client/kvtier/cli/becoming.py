"""Becoming a server: this process goes on as one."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kvtier.cli.nodes import require_server

F = TypeVar("F", bound=Callable[..., Any])

NODE, PROXY = "kvtier.server", "kvtier.proxy"


def become(server: str, *arguments: str) -> None:
    """Go on as a server with these arguments; where it works this does not return.

    Args:
        server: `NODE` or `PROXY`.
        arguments: The server's.

    Raises:
        CommandError: When what a server needs is not installed.
    """
    require_server()
    sys.stdout.flush()
    if os.getpid() == 1:
        # The system drops what the first process of a container does not handle yet: it is to wait.
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
    os.execv(sys.executable, (sys.executable, "-m", server, *arguments))  # noqa: S606


def of_which(command: F) -> F:
    """Add --proxy to a command: that it is about a proxy, not a node."""
    return click.option(
        "--proxy", "server", flag_value=PROXY, default=NODE, help="Of a proxy, not of a node."
    )(command)


def configuration(command: F) -> F:
    """Add --proxy, and the file of the configuration as an argument."""
    file = click.argument("file", type=click.Path(path_type=Path), required=False)
    return file(of_which(command))


def with_file(file: Path | None) -> tuple[str, ...]:
    """Return the server's arguments for a configuration file."""
    return ("--config", str(file)) if file is not None else ()
