"""Positions of a node's log, as text: the epoch's 16 hexadecimal digits, ":", and the sequence."""

import re

import click

from kvtier.v1.block_pb2 import Position

_FORM = re.compile(r"([0-9a-fA-F]{16}):([0-9]{1,20})")


def position_text(epoch: int, sequence: int) -> str:
    """Return a position as text, such as "0f1e2d3c4b5a6978:42"."""
    return f"{epoch:016x}:{sequence}"


def position_of(text: str | Position) -> Position:
    """Return the position that an option names.

    Raises:
        click.BadParameter: When it names none.
    """
    if isinstance(text, Position):
        return text
    found = _FORM.fullmatch(text)
    if found is not None:
        epoch, sequence = int(found[1], 16), int(found[2])
        if epoch and sequence < 1 << 64:
            return Position(epoch=epoch, sequence=sequence)
    shown = text if len(text) <= 40 else f"{text[:40]}…"
    raise click.BadParameter(
        f"{shown!r} is no position; write EPOCH:SEQ, with an epoch of 16 hexadecimal digits that "
        "is not 0, such as 0f1e2d3c4b5a6978:42"
    )
