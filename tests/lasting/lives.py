"""Blocks on a shelf as an earlier life of a node left them, and a node that finds them."""

import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from xxhash import xxh3_64_intdigest

from kvtier.server.lasting.record import Record, encode_header
from kvtier.server.upkeep import Upkeep
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.namespaces import fingerprint
from tests.contract.support import BLOCK_BYTES, TOKENS, block_hash, namespace
from tests.unit.server.support import LocalNode
from tests.waiting import until

from .memory_shelf import MemoryShelf

# What a block of a test takes of the capacity.
COST = 4096
FS = "fs0"


class HeldShelf(MemoryShelf):
    """A shelf on which so many blocks can be looked at, until more are let through."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self._may = threading.Semaphore(blocks)
        self.looked_at: list[str] = []

    def head(self, name: str, length: int) -> tuple[bytes, int]:
        self._may.acquire()
        self.looked_at.append(name)
        return super().head(name, length)

    def let_through(self, blocks: int = 1 << 20) -> None:
        """Let more blocks be looked at."""
        self._may.release(blocks)


def fs_tier(blocks: int, **fields: object) -> dict[str, object]:
    """The configuration of a tier of files with room for some small blocks."""
    where = {"directory": "/nowhere"}
    return {"name": FS, "medium": "fs", "capacity": blocks * COST, **where, **fields}


def record_of(
    block: object,
    serial: int,
    *,
    after: object = None,
    start: int | None = None,
    described: Namespace | None = None,
    **fields: Any,
) -> Record:
    """Return the record of a block of zeros that a test calls by a number or a word."""
    plain = Record(
        fingerprint(described or namespace()),
        0,
        b"",
        block_hash(block),
        b"" if after is None else block_hash(after),
        start if start is not None else TOKENS * (after is not None),
        BLOCK_BYTES,
        xxh3_64_intdigest(bytes(BLOCK_BYTES)),
        "",
        b"",
        serial,
    )
    return plain._replace(**fields)


def chain(*blocks: object, first: int = 1) -> list[Record]:
    """Return the records of consecutive blocks from position 0 on, in the order of writing."""
    return [
        record_of(block, first + i, after=blocks[i - 1] if i else None, start=TOKENS * i)
        for i, block in enumerate(blocks)
    ]


def lay(shelf: MemoryShelf, records: Sequence[Record], described: Namespace | None = None) -> None:
    """Put whole blocks of zeros on a shelf."""
    about = described or namespace()
    shelf.namespaces[fingerprint(about).hex()] = about.SerializeToString()
    for record in records:
        shelf.blocks[record.name] = encode_header(record) + bytes(record.size)


def restart(shelf: MemoryShelf, blocks: int = 100, **settings: object) -> LocalNode:
    """Return a node with a tier of files that has not looked at its shelf yet."""
    return LocalNode(fs_tier(blocks, **settings), shelves={FS: shelf})


@asynccontextmanager
async def upkeep(node: LocalNode, tier: str = FS) -> AsyncIterator[Upkeep]:
    """Look after a tier for as long as the body runs."""
    work = Upkeep(node.node, node.node.tier(tier), scrub_rate=0)
    work.start()
    try:
        yield work
    finally:
        for shelf in node.shelves.values():
            shelf.gate.set()
            if isinstance(shelf, HeldShelf):
                shelf.let_through()
        await work.close()
        node.close()


async def recovered(node: LocalNode) -> None:
    """Let a node look at all that its first tier has, and stop looking after it."""
    async with upkeep(node):
        await until(lambda: not node.tier.health.recovering)
