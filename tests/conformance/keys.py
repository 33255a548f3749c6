"""The keys of scenarios, and the blocks that they stand for."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kvtier.v1.block_pb2 import BlockSet
from tests.contract.support import block_hash


class Key(NamedTuple):
    """A key of a scenario: `1` is number 1 of group 0, `"g1:1"` number 1 of group 1."""

    group: int
    number: int

    @classmethod
    def read(cls, written: int | str) -> "Key":
        group, _, number = str(written).rpartition(":")
        return cls(int(group.removeprefix("g") or 0), int(number))

    def write(self) -> int | str:
        return f"g{self.group}:{self.number}" if self.group else self.number


def hashes_of(keys: Iterable[Key]) -> bytes:
    return b"".join(block_hash(key.number) for key in keys)


def sets_of(keys: Sequence[Key]) -> list[BlockSet]:
    """Name keys in their order; those of one group are one set as long as they are together."""
    groups = [key.group for key in keys]
    cuts = [i for i in range(1, len(keys)) if groups[i] != groups[i - 1]]
    return [
        BlockSet(group=groups[first], block_hashes=hashes_of(keys[first:last]))
        for first, last in zip([0, *cuts], [*cuts, len(keys)], strict=True)
    ]
