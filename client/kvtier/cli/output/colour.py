"""Whether to colour, and how."""

import os
from collections.abc import Callable, Mapping
from typing import TextIO

import click

from kvtier.cli.output.base import Record

BAD, DOUBTFUL = "red", "yellow"


def wants_colour(choice: str, out: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether to colour what is written to a stream.

    Args:
        choice: "always", "never", or "auto": on a terminal that can, unless NO_COLOR is set.
        out: The stream.
        environment: Where NO_COLOR and TERM are.
    """
    if choice != "auto":
        return choice == "always"
    plain = environment.get("NO_COLOR") or environment.get("TERM") == "dumb"
    return out.isatty() and not plain


def tones(words: Mapping[str, str], field: str) -> Callable[[Record], str]:
    """Return what tells the colour of a record by the word in one of its fields."""
    return lambda record: words.get(record[field], "")


def paint(text: str, tone: str) -> str:
    """Return text in a colour; as it is where the colour is empty."""
    return click.style(text, fg=tone) if tone else text
