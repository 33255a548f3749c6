"""Finding out what lies on a shelf, without reading any payload."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import NamedTuple

import numpy as np

from kvtier.server.lasting.record import (
    HEAD_BYTES,
    BadHeaderError,
    CutShortError,
    Record,
    decode_header,
    serial_of,
)
from kvtier.server.lasting.shelf import DamagedError, MissingError, Shelf

# No tier ever writes so often: a name with a higher serial is not of its making.
_MOST_WRITES = 1 << 60


class Sighting(NamedTuple):
    """A whole block on a shelf.

    Attributes:
        record: What its header says.
        length: Bytes of the header and the payload.
    """

    record: Record
    length: int


class Sightings(NamedTuple):
    """What some names stand for; those that nothing is there for are left out.

    Attributes:
        found: Whole blocks, in the order of the names.
        bad: The names of what is no whole block, and why not.
        left: The names that there was no time for.
    """

    found: list[Sighting]
    bad: list[tuple[str, str]]
    left: Sequence[str]


class Names:
    """The names of all blocks of a shelf, to be taken from the newest to the oldest.

    Attributes:
        newest: The highest serial that a write ever had; 0 without names.
    """

    def __init__(self) -> None:
        self.newest = 0
        self._names: list[str] = []
        self._serials = array("Q")
        self._order: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self._names)

    def add(self, names: Sequence[str]) -> None:
        """Add names of blocks."""
        self._names += names
        self._serials.extend([serial_of(name) or 0 for name in names])

    def sort(self) -> None:
        """Bring them in order; takes a while where there are many, and is for a thread."""
        # Unlike the sort of a list, this one lets other threads run meanwhile.
        serials = np.frombuffer(self._serials, np.uint64)
        self._order = array("Q", np.argsort(serials)[::-1].tobytes())
        written = serials[serials < _MOST_WRITES]
        self.newest = int(written.max()) if written.size else 0

    def newest_first(self, count: int) -> Iterator[list[str]]:
        """Yield all names, so many at a time."""
        for first in range(0, len(self._order), count):
            yield [self._names[place] for place in self._order[first : first + count]]


def look_at(
    shelf: Shelf,
    names: Sequence[str],
    patience: float,
    clock: Callable[[], float] = monotonic,
) -> Sightings:
    """Read the headers of blocks, of one at least; for threads.

    Args:
        shelf: Where they are.
        names: Their names, in order.
        patience: When to begin with no further one, in seconds from now.
        clock: Tells the time.

    Raises:
        ShelfError: When the shelf fails.
    """
    found: list[Sighting] = []
    bad: list[tuple[str, str]] = []
    end = clock() + patience
    for place, name in enumerate(names):
        if place and clock() >= end:
            return Sightings(found, bad, names[place:])
        try:
            found.append(_look_at_one(shelf, name))
        except MissingError:
            continue
        except (BadHeaderError, DamagedError) as error:
            bad.append((name, str(error) or "it is no plain file"))
    return Sightings(found, bad, ())


def _look_at_one(shelf: Shelf, name: str) -> Sighting:
    head, length = shelf.head(name, HEAD_BYTES)
    try:
        record, header_bytes = decode_header(head)
    except CutShortError as error:
        head, length = shelf.head(name, error.needed)
        record, header_bytes = decode_header(head)
    if record.name != name:
        raise BadHeaderError("its header is that of another block")
    if length != header_bytes + record.size:
        raise BadHeaderError(f"it has {length} bytes and should have {header_bytes + record.size}")
    return Sighting(record, length)
