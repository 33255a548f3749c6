"""vLLM's own file tier, taken out of its wheel: how it writes and reads files, and its threads.

What is stood in for is its log and one type's name. Its files get no header and no checksum, and it
bypasses the page cache where the file system lets it: that is how it comes.
"""

import asyncio
import importlib
import importlib.util
import os
import sys
import types
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from kvtier.server.stores.base import Bytes

_FOLDER = "vllm/v1/kv_offload/tiering/fs"
_NATIVE = "vllm/fs_io_C.abi3.so"
# Its own defaults.
_READERS = _WRITERS = 16


def open_tier(wheel: str, directory: Path) -> "VllmFiles":
    """Return its file tier on a directory of its own.

    Raises:
        OSError, KeyError: When the wheel is not there, or of another version.
    """
    directory.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        native = Path(archive.extract(_NATIVE, directory))
        code = {name: archive.read(f"{_FOLDER}/{name}.py") for name in ("io", "thread_pool")}
    for name in ("vllm", "vllm.v1", "vllm.v1.kv_offload", "vllm.v1.kv_offload.tiering"):
        sys.modules[name] = types.ModuleType(name)
    log = sys.modules["vllm.logger"] = types.ModuleType("vllm.logger")
    log.__dict__["init_logger"] = __import__("logging").getLogger
    base = sys.modules["vllm.v1.kv_offload.tiering.base"] = types.ModuleType("base")
    base.__dict__["JobId"] = int
    # As in vLLM itself, its Python code steps in where the native part cannot be loaded.
    with suppress(ImportError):
        sys.modules["vllm.fs_io_C"] = _load_native(native)
    modules = {}
    for name, source in code.items():
        module = modules[name] = types.ModuleType(name)
        exec(compile(source, name, "exec"), module.__dict__)  # noqa: S102 - what we came to measure
    return VllmFiles(modules["io"], modules["thread_pool"], directory)


def _load_native(path: Path) -> types.ModuleType:
    # It needs what torch brings.
    importlib.import_module("torch")
    spec = importlib.util.spec_from_file_location("vllm.fs_io_C", path)
    assert spec is not None
    return importlib.util.module_from_spec(spec)


class VllmFiles:
    """Its jobs and threads, as its manager uses them: a job is a batch.

    Args:
        io: Its module of reading and writing.
        pool: Its module of threads.
        directory: Where files go.
    """

    def __init__(self, io: Any, pool: Any, directory: Path) -> None:
        self._io = io
        self._pool = pool.DualQueueThreadPool(_READERS, _WRITERS)
        self._directory = directory
        self._direct = io.probe_o_direct(str(directory))
        self._jobs = count()
        self._names = count()
        self._paths: list[str] = []
        self._memory: Bytes = np.empty(0, np.uint8)

    async def store(self, blocks: Sequence[Bytes]) -> None:
        """Store a batch from its memory, into which the blocks were put before."""
        self._paths = [str(self._directory / f"{next(self._names)}.bin") for _ in blocks]
        await self._run(self._pool.enqueue_store, self._io.batch_store_block, blocks)

    async def load(self, into: Sequence[Bytes]) -> None:
        """Load the last batch."""
        await self._run(self._pool.enqueue_load, self._io.batch_load_block, into)

    async def clear(self) -> None:
        """Remove the last batch."""
        for path in self._paths:
            os.unlink(path)  # noqa: PTH108 - the shortest way

    async def _run(self, enqueue: Any, move: Any, blocks: Sequence[Bytes]) -> None:
        tasks = [
            partial(move, [path], _flat(block), [0], block.size, self._direct)
            for path, block in zip(self._paths, blocks, strict=True)
        ]
        enqueue(next(self._jobs), len(tasks), tasks)
        await asyncio.to_thread(self._pool.wait_idle)
        ended = self._pool.get_finished()
        assert all(success for _, success, _ in ended), "vLLM's job failed"


def _flat(block: Bytes) -> memoryview:
    return block.data.cast("B")
