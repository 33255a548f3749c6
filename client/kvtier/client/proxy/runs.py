"""Runs of blocks, taken apart by the places of the blocks."""

from collections.abc import Iterable, Iterator, Sequence

from kvtier.client.answers import BlockKey
from kvtier.client.chunks import block_sizes
from kvtier.v1.block_pb2 import BlockRun, BlockSet
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.hashes import split_hashes


class Runs:
    """Blocks of one namespace, numbered by their place over all runs.

    Args:
        namespace: The fingerprint, 32 bytes.
        description: The namespace's description.
        runs: The runs.

    Attributes:
        namespace: As given.
        description: As given.
        runs: As given.
        sizes: The bytes of each block.
        keys: What names each block.

    Raises:
        InvalidArgumentError: When a run does not fit the description.
    """

    def __init__(self, namespace: bytes, description: Namespace, runs: Sequence[BlockRun]) -> None:
        self.namespace = namespace
        self.description = description
        self.runs = list(runs)
        self.sizes = block_sizes(description, self.runs)
        self.keys: list[BlockKey] = []
        self._begins: list[int] = []
        for run in self.runs:
            self._begins.append(len(self.keys))
            self.keys += [
                BlockKey(namespace, run.group, run.scope, block_hash)
                for block_hash in split_hashes(run.block_hashes, description.hash_width)
            ]

    def __len__(self) -> int:
        return len(self.keys)

    def once(self, places: Iterable[int]) -> list[int]:
        """Return the places in order, a block that is named at several of them by its first."""
        return sorted({self.keys[place]: place for place in sorted(places, reverse=True)}.values())

    def some(self, places: Iterable[int]) -> list[BlockRun]:
        """Return the runs of the blocks at some places, given in order."""
        return [self._part(*stretch) for stretch in self._stretches(places)]

    def sets(self, places: Iterable[int] | None = None) -> list[BlockSet]:
        """Return the blocks at some places, given in order, or all, as a request names them."""
        return [
            BlockSet(group=run.group, scope=run.scope, block_hashes=run.block_hashes)
            for run in (self.runs if places is None else self.some(places))
        ]

    def _stretches(self, places: Iterable[int]) -> Iterator[tuple[BlockRun, int, int]]:
        """Yield the parts of runs that consecutive places are: a run, its first and end block."""
        ends = [*self._begins[1:], len(self.keys)]
        number, first, last = -1, 0, 0
        for place in places:
            if number >= 0 and place == last and place < ends[number]:
                last += 1
                continue
            if number >= 0:
                yield self._stretch(number, first, last)
            number = max(number, 0)
            while place >= ends[number]:
                number += 1
            first, last = place, place + 1
        if number >= 0:
            yield self._stretch(number, first, last)

    def _stretch(self, number: int, first: int, last: int) -> tuple[BlockRun, int, int]:
        begin = self._begins[number]
        return self.runs[number], first - begin, last - begin

    def _part(self, run: BlockRun, first: int, last: int) -> BlockRun:
        width, tokens = self.description.hash_width, self.description.tokens_per_block
        packed = run.block_hashes
        return BlockRun(
            group=run.group,
            scope=run.scope,
            block_hashes=packed[first * width : last * width],
            parent_block_hash=packed[(first - 1) * width : first * width]
            if first
            else run.parent_block_hash,
            start_position=run.start_position + first * tokens,
            token_ids=run.token_ids[first * tokens : last * tokens],
            adapter_name=run.adapter_name,
        )
