"""What every renderer does."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

Record = Mapping[str, Any]
"""One thing, by the field names of its message, in values that JSON knows."""

Namer = Callable[[Record], str]
"""Returns what a record is called with `-o name`; empty for one that is not to be named."""


class Column(NamedTuple):
    """What a table shows of a record.

    Attributes:
        title: The column's title.
        value: The cell's text.
        right: Align to the right, for numbers.
        width: Least width, for a table that is written before all its rows are known.
        wide: Only in a wide table.
        ages: The cell changes by the passing of time alone, which is no news.
        tone: The cell's colour where there are colours; empty for none.
    """

    title: str
    value: Callable[[Record], str]
    right: bool = False
    width: int = 0
    wide: bool = False
    ages: bool = False
    tone: Callable[[Record], str] = lambda _record: ""


class Printer(Protocol):
    """Writes either a list of records, batch by batch, or a single one."""

    def write(self, records: Sequence[Record]) -> None:
        """Write a batch of a list's records, so that the reader has them at once."""

    def one(self, record: Record, lines: Iterable[str]) -> None:
        """Write the only thing that a command has to tell.

        Args:
            record: The thing.
            lines: How a person reads it; used up only where that is the format.
        """

    def close(self, *, whole: bool) -> None:
        """End the output; `whole` is False when the command failed on the way."""
