"""A shelf in memory, which tests may hold up, break and spoil."""

import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from kvtier.server.lasting.record import serial_of
from kvtier.server.lasting.shelf import DamagedError, MissingError, ShelfError, always
from kvtier.server.stores.base import Bytes

_GRAIN = 4096


class MemoryShelf:
    """A `Shelf` that is a dict, and outlives the node that uses it when tests keep it.

    Attributes:
        blocks: The bytes of each block by its name.
        namespaces: The descriptions by fingerprint.
        trouble: What every operation fails with; empty while all is well.
        gate: Closed, every operation that moves bytes waits for it.
        deleted: Names that were deleted, in order.
        begun: What operations were begun on, in order: names of blocks, and fingerprints described.
    """

    def __init__(self) -> None:
        self.blocks: dict[str, bytes] = {}
        self.namespaces: dict[str, bytes] = {}
        self.trouble = ""
        self.gate = threading.Event()
        self.gate.set()
        self.deleted: list[str] = []
        self.begun: list[str] = []

    def cost(self, length: int) -> int:
        return -(-length // _GRAIN) * _GRAIN

    def put(
        self, name: str, parts: Sequence[bytes | memoryview], wanted: Callable[[], bool] = always
    ) -> None:
        self._pass(name)
        whole = b"".join(parts)
        if not wanted():
            raise ShelfError("it was given up")
        assert name not in self.blocks, "a name was used twice"
        self.blocks[name] = whole

    def get(self, name: str, parts: Sequence[Bytes]) -> None:
        self._pass(name)
        whole = self._find(name)
        if len(whole) != sum(part.size for part in parts):
            raise DamagedError
        first = 0
        for part in parts:
            part[:] = np.frombuffer(whole[first : first + part.size], np.uint8)
            first += part.size

    def head(self, name: str, length: int) -> tuple[bytes, int]:
        self._pass(name)
        whole = self._find(name)
        return whole[:length], len(whole)

    def delete(self, names: Sequence[str]) -> None:
        self._pass()
        for name in names:
            self.blocks.pop(name, None)
            self.deleted.append(name)

    def names(self) -> Iterator[list[str]]:
        self._pass()
        yield list(self.blocks)

    def describe(self, fingerprint: str, description: bytes) -> None:
        self.begun.append(fingerprint)
        self._pass()
        self.namespaces[fingerprint] = description

    def descriptions(self) -> dict[str, bytes]:
        self._pass()
        return dict(self.namespaces)

    def forget(self, fingerprint: str) -> None:
        self._pass()
        self.namespaces.pop(fingerprint, None)

    def probe(self, length: int) -> None:
        assert length >= 0
        self._pass()

    def close(self) -> None: ...

    def _pass(self, name: str | None = None) -> None:
        assert name is None or serial_of(name) is not None, f"{name} is no name of a block"
        if name is not None:
            self.begun.append(name)
        self.gate.wait()
        if self.trouble:
            raise ShelfError(self.trouble)

    def _find(self, name: str) -> bytes:
        try:
            return self.blocks[name]
        except KeyError:
            raise MissingError from None
