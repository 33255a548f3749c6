"""Nodes with a tier of real files, and what a test does to these."""

from pathlib import Path
from typing import Any

from kvtier.v1.result_pb2 import ReadResult

from .conftest import Serve
from .support import Serving, blocks_of, words

FILES = "fs0"


def files_tier(directory: Path, **fields: object) -> dict[str, object]:
    """The configuration of a tier of files, with plenty of room."""
    return {
        "name": FILES,
        "medium": "fs",
        "capacity": "64MiB",
        "directory": str(directory),
        "io_threads": 2,
        **fields,
    }


async def serve_files(
    serve: Serve, directory: Path, *, tier: dict[str, object] | None = None, **settings: Any
) -> Serving:
    """Start a node whose first tier is of files."""
    return await serve(files_tier(directory, **(tier or {})), **settings)


def block_files(directory: Path) -> list[Path]:
    """Return the files of blocks, by name."""
    return sorted(path for path in (directory / "blocks").rglob("*") if path.is_file())


def file_of(directory: Path, data: bytes) -> Path:
    """Return the file of the block with some bytes."""
    (path,) = [path for path in block_files(directory) if path.read_bytes().endswith(data)]
    return path


async def read(node: Serving, *blocks: object) -> tuple[list[bytes | None], list[str]]:
    """Load blocks; return their bytes, and why there are none."""
    report = await node.client.load(FILES, node.namespace, [blocks_of(*blocks)])
    return list(report.payloads), words(ReadResult, report.results)


async def nothing_is_held(node: Serving, directory: Path) -> None:
    """See that no slot, budget or file is left that should not be."""
    tier = node.node.tiers[0]
    assert tier.keeping is not None
    await tier.keeping.store.flush()
    assert (node.node.write_bytes.used, node.node.read_bytes.used) == (0, 0)
    assert node.node.transfers == 0
    held = (await node.tier(FILES)).ready_blocks
    # The node may be reading one by itself, to see whether it is whole.
    await node.comes_to({"ready": held} if held else {}, FILES)
    assert len(block_files(directory)) == held
