"""Blocks to put on shelves."""

import random
from collections.abc import Sequence
from itertools import chain

import numpy as np

from kvtier.server.lasting.record import make_name
from kvtier.server.lasting.shelf import MissingError, Shelf
from kvtier.server.stores.base import Bytes


def name_of(number: int) -> str:
    """Return the name of a block; numbers in a row lie in different directories."""
    return make_name(bytes(32), 0, b"", number.to_bytes(8, "big"), number + 1)


def bytes_of(number: int, length: int = 5000) -> bytes:
    """Return the bytes of a block."""
    return random.Random(number).randbytes(length)


def arrays(*lengths: int) -> list[Bytes]:
    """Return arrays to read into, full of something else."""
    return [np.full(length, 0xEE, np.uint8) for length in lengths]


def read(shelf: Shelf, name: str, length: int) -> bytes:
    """Return the bytes of a block that is so long."""
    into = arrays(length)
    shelf.get(name, into)
    return into[0].tobytes()


def is_there(shelf: Shelf, number: int, length: int = 5000) -> bool:
    """Tell whether a block is there; it has to be whole then."""
    try:
        found = read(shelf, name_of(number), length)
    except MissingError:
        return False
    assert found == bytes_of(number, length)
    return True


def names_of(shelf: Shelf) -> list[str]:
    """Return the names of all blocks."""
    return list(chain.from_iterable(shelf.names()))


def cut_up(data: bytes, lengths: Sequence[int]) -> list[memoryview]:
    """Return bytes as parts of these lengths."""
    view, parts = memoryview(data), []
    for length in lengths:
        parts.append(view[:length])
        view = view[length:]
    assert not view
    return parts
