"""Files: kvtier's shelf, plain files of the same bytes and durability, and vLLM's file tier."""

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Literal

from xxhash import xxh3_64_intdigest

from benchmarks.lasting import vllm_files
from benchmarks.lasting.ours import Ours
from benchmarks.lasting.turns import MIB, Contender, Options, compare
from kvtier.server.lasting.files import FileShelf
from kvtier.server.stores.base import Bytes
from kvtier.v1.block_pb2 import Medium

Sync = Literal["none", "close", "always"]
_THREADS = 4
_HEADER = 200


async def measure(options: Options) -> None:
    """Compare for each size of block and each way to sync."""
    syncs: Sequence[Sync] = ("none", "close", "always")
    for size in options.block_sizes():
        for sync in syncs:
            where = options.directory / f"{size}-{sync}"
            where.mkdir()
            shelf = FileShelf(where / "kvtier", sync=sync)
            contenders: dict[str, Contender] = {
                "kvtier": Ours(shelf, Medium.MEDIUM_FS, _THREADS, MIB),
                "plain files": PlainFiles(where / "plain", sync),
                "plain files, checked": PlainFiles(where / "checked", sync, checks=True),
            }
            if options.vllm and sync == "none":
                contenders["vLLM's file tier"] = vllm_files.open_tier(options.vllm, where / "vllm")
            title = f"files of {size / MIB:g} MiB, sync: {sync}, {_THREADS} threads"
            await compare(title, contenders, options.blocks(size), options.turns)


class PlainFiles:
    """Files that are written and read with as few system calls as that takes.

    Args:
        directory: Where they go.
        sync: What is flushed.
        checks: Whether blocks are compared with their checksums when they are loaded: what is left
            between this and kvtier is kvtier's own.
    """

    def __init__(self, directory: Path, sync: Sync, *, checks: bool = False) -> None:
        directory.mkdir()
        self._directory = directory
        self._checks = checks
        self._checksums: dict[Path, int] = {}
        self._sync = sync
        self._threads = ThreadPoolExecutor(_THREADS)
        self._numbers = count()
        self._paths: list[Path] = []

    async def store(self, blocks: Sequence[Bytes]) -> None:
        """Store a batch."""
        self._paths = [self._directory / str(next(self._numbers)) for _ in blocks]
        await self._each(self._write, self._paths, blocks)

    async def load(self, into: Sequence[Bytes]) -> None:
        """Load the last batch."""
        await self._each(self._read, self._paths, into)

    async def clear(self) -> None:
        """Remove the last batch."""
        for path in self._paths:
            path.unlink()

    async def _each(
        self, do: Callable[[Path, Bytes], None], paths: Sequence[Path], blocks: Sequence[Bytes]
    ) -> None:
        def some(first: int) -> None:
            for path, block in zip(paths[first::_THREADS], blocks[first::_THREADS], strict=True):
                do(path, block)

        loop = asyncio.get_running_loop()
        await asyncio.gather(
            *(loop.run_in_executor(self._threads, some, first) for first in range(_THREADS))
        )

    def _write(self, path: Path, block: Bytes) -> None:
        partial = f"{path}.partial"
        if self._checks:
            self._checksums[path] = xxh3_64_intdigest(block.data)
        file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.writev(file, [bytes(_HEADER), block.data])
        if self._sync != "none":
            os.fdatasync(file)
        os.close(file)
        os.rename(partial, path)  # noqa: PTH104 - the shortest way
        if self._sync == "always":
            directory = os.open(self._directory, os.O_RDONLY)
            os.fsync(directory)
            os.close(directory)

    def _read(self, path: Path, block: Bytes) -> None:
        file = os.open(path, os.O_RDONLY)
        os.preadv(file, [bytearray(_HEADER), block.data], 0)
        os.close(file)
        if self._checks:
            assert xxh3_64_intdigest(block.data) == self._checksums.pop(path)
