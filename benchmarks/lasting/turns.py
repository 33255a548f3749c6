"""Contenders take turns at storing and loading the same blocks."""

import gc
import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np

from kvtier.server.stores.base import Bytes

MIB = 1 << 20
_BATCH = 32


class Options(NamedTuple):
    """What a run is asked to do.

    Attributes:
        turns: Measurements of each kind.
        tiny: Only show that everything works: the figures mean nothing.
        directory: Where files go.
        vllm: vLLM's wheel; None to leave it out.
    """

    turns: int
    tiny: bool
    directory: Path
    vllm: str | None

    def block_sizes(self) -> Sequence[int]:
        """Return the sizes of the blocks to measure with."""
        return (4096,) if self.tiny else (MIB, 2 * MIB)

    def blocks(self, size: int) -> list[Bytes]:
        """Return blocks of a size with bytes that no disk can make smaller."""
        blocks = memory(4 if self.tiny else _BATCH, size)
        rng = np.random.default_rng(0)
        for block in blocks:
            block[:] = rng.integers(0, 256, size, np.uint8)
        return blocks


def memory(count: int, size: int) -> list[Bytes]:
    """Return arrays that begin on pages, as the slots of a tier in memory do."""
    whole: Bytes = np.frombuffer(mmap.mmap(-1, count * size), np.uint8)
    return [whole[first : first + size] for first in range(0, count * size, size)]


class Contender(Protocol):
    """Stores and loads blocks, each time under new names."""

    async def store(self, blocks: Sequence[Bytes]) -> None:
        """Store a batch; at the end it could be loaded."""

    async def load(self, into: Sequence[Bytes]) -> None:
        """Load the last batch."""

    async def clear(self) -> None:
        """Remove the last batch."""


async def compare(
    title: str, contenders: Mapping[str, Contender], blocks: Sequence[Bytes], turns: int
) -> None:
    """Let contenders take turns, and print each one's rate and the first one's ratio to it."""
    into = memory(len(blocks), blocks[0].size)
    stores: dict[str, list[float]] = {name: [] for name in contenders}
    loads: dict[str, list[float]] = {name: [] for name in contenders}
    gc.collect()
    names = list(contenders)
    for turn in range(turns + 1):
        # Who comes first finds a disk that has less to do.
        for place in range(len(names)):
            name = names[(turn + place) % len(names)]
            contender = contenders[name]
            began = perf_counter()
            await contender.store(blocks)
            stored = perf_counter()
            await contender.load(into)
            loaded = perf_counter()
            for block, read in zip(blocks, into, strict=True):
                assert np.array_equal(block, read), f"{name} loads something else"
                read[:] = 0
            await contender.clear()
            # The first turn warms up.
            if turn:
                stores[name].append(stored - began)
                loads[name].append(loaded - stored)
    _print(title, sum(block.size for block in blocks), stores, loads)


def _print(
    title: str, size: int, stores: Mapping[str, list[float]], loads: Mapping[str, list[float]]
) -> None:
    first = next(iter(stores))
    print(f"\n{title}")
    print(f"  {'':24}{'store':>10}{'':8}{'load':>10}")
    for name in stores:
        row = f"  {name:24}"
        for times in (stores, loads):
            mine = median(times[name])
            ratio = median(a / b for a, b in zip(times[name], times[first], strict=True))
            told = "" if name == first else f"{ratio:.2f}"
            row += f"{size / mine / 1e9:>8.2f} GB/s{told:>6}"
        print(row)
    print(f"  ratios: how many times as fast as it {first} is")
