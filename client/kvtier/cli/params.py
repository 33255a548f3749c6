"""Values on the command line that several commands take."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kvtier.wire.sizes import parse_size

F = TypeVar("F", bound=Callable[..., Any])


def block_size(text: str | int) -> int:
    """Return the bytes of a block's size such as "65536", "64KiB" or "0.5 MiB"."""
    try:
        size = parse_size(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not size:
        raise click.BadParameter(f"{text!r} is no size of a block; write 1 or more")
    return size


def interval_option(text: str, *, default: float = 2.0, least: float = 0.1) -> Callable[[F], F]:
    """Return what adds --interval to a command.

    Args:
        text: What it is the interval of.
        default: Seconds.
        least: Seconds.
    """
    return click.option(
        "-i",
        "--interval",
        type=click.FloatRange(min=least, max=3600),
        metavar="SECONDS",
        default=default,
        show_default=True,
        help=text,
    )
