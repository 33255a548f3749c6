"""Positions as text."""

import click
import pytest

from kvtier.cli.position import position_of, position_text
from kvtier.v1.block_pb2 import Position


@pytest.mark.parametrize(
    ("text", "epoch", "sequence"),
    [
        ("0f1e2d3c4b5a6978:42", 0x0F1E2D3C4B5A6978, 42),
        ("0000000000000001:0", 1, 0),
        ("ffffffffffffffff:18446744073709551615", (1 << 64) - 1, (1 << 64) - 1),
    ],
)
def test_what_is_printed_is_read_back(text: str, epoch: int, sequence: int) -> None:
    """The text of a position names that position."""
    assert position_of(text) == Position(epoch=epoch, sequence=sequence)
    assert position_text(epoch, sequence) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "42",
        ":42",
        "0f1e2d3c4b5a6978",
        "0f1e2d3c4b5a6978:",
        "0f1e2d3c4b5a6978:-1",
        "0f1e2d3c4b5a6978:4x",
        "0f1e2d3c4b5a6978:18446744073709551616",
        "0f1e2d3c:42",
        "0x1e2d3c4b5a6978:42",
        "0000000000000000:42",
        "0f1e2d3c4b5a6978:42 ",
    ],
)
def test_what_is_no_position_is_refused(text: str) -> None:
    """The error shows what was given and how one looks."""
    with pytest.raises(click.BadParameter, match="EPOCH:SEQ") as raised:
        position_of(text)

    assert repr(text) in str(raised.value)
