"""A tier whose shelf failed is tried until it works, and then takes blocks again by itself."""

import errno
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from kvtier.server.lasting import healing
from kvtier.server.lasting.disk import RootedDisk
from kvtier.server.lasting.files import FileShelf
from kvtier.server.lasting.health import READ_ONLY, READY, Health
from kvtier.server.lasting.lane import Lane
from kvtier.server.lasting.moving import Outcome
from kvtier.server.lasting.store import LastingStore
from kvtier.v1.block_pb2 import Medium
from tests.contract.support import BLOCK_BYTES
from tests.unit.lasting.faulty_disk import Fault, FaultyDisk
from tests.unit.server.support import LocalNode
from tests.waiting import until

from .lives import chain, lay, record_of, restart, upkeep
from .memory_shelf import MemoryShelf


class ProbedShelf(MemoryShelf):
    """A shelf that counts probes, and may fail at nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.probes: list[int] = []
        self.full = False

    def probe(self, length: int) -> None:
        self.probes.append(length)
        if self.full:
            self.trouble, before = "no space left on device", self.trouble
            try:
                super().probe(length)
            finally:
                self.trouble = before


@pytest.fixture
def shelf() -> ProbedShelf:
    shelf = ProbedShelf()
    lay(shelf, chain("a"))
    return shelf


@pytest.fixture
async def node(shelf: ProbedShelf, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalNode]:
    monkeypatch.setattr(healing, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(healing, "_LONGEST_PAUSE", 0.02)
    node = restart(shelf)
    async with upkeep(node):
        await until(lambda: not node.tier.health.recovering)
        yield node


async def test_a_tier_heals_when_its_shelf_works(node: LocalNode, shelf: ProbedShelf) -> None:
    """It is tried with as much as the largest block takes, and not before it fails."""
    keeping = node.tier.keeping
    assert keeping is not None
    assert not shelf.probes
    shelf.full = True
    keeping.store.health.fault("no space left on device")
    await until(lambda: len(shelf.probes) >= 3)
    assert keeping.store.health.state == READ_ONLY

    shelf.full = False
    await until(lambda: keeping.store.health.state == READY)

    assert set(shelf.probes) == {node.tier.slot_bytes}
    assert node.tier.accepts


async def test_what_is_to_be_deleted_goes_first(node: LocalNode, shelf: ProbedShelf) -> None:
    """A tier is not healed while it has not the room that it counts on."""
    keeping = node.tier.keeping
    assert keeping is not None
    shelf.trouble = "input/output error"
    keeping.store.discard(list(shelf.blocks))
    await until(lambda: keeping.store.health.state == READ_ONLY)
    assert not shelf.probes

    shelf.trouble = ""
    await until(lambda: keeping.store.health.state == READY)

    assert not shelf.blocks


async def test_a_tier_heals_every_time(node: LocalNode, shelf: ProbedShelf) -> None:
    """The second failure is as good as the first."""
    keeping = node.tier.keeping
    assert keeping is not None
    for failure in range(1, 4):
        keeping.store.health.fault("it does not answer")
        await until(lambda: keeping.store.health.state == READY)
        assert len(shelf.probes) == failure


async def test_what_a_late_writer_could_not_remove_is_removed(tmp_path: Path) -> None:
    """Its thread comes back when the tier has healed, and nobody waits to hear that it failed."""
    gate, trouble = threading.Event(), ["sync"]

    def plan(operation: str, _: int) -> Fault | None:
        if operation not in trouble:
            return None
        trouble.remove(operation)
        if operation == "unlink":
            return Fault(errno.EIO)
        gate.wait()
        trouble.append("unlink")
        return None

    disks: list[FaultyDisk] = []

    def attach(root: int) -> FaultyDisk:
        disks.append(FaultyDisk(RootedDisk(root)))
        return disks[-1]

    files = FileShelf(tmp_path / "fs", sync="close", disk=attach)
    disks[0].plan = plan
    health = Health(recovering=False)
    lane = Lane("fs0", 2, 0.2)
    store = LastingStore(files, lane, health, medium=Medium.MEDIUM_FS, capacity_bytes=1 << 20)
    try:
        moving = store.save([record_of("a", 1)], [np.zeros(BLOCK_BYTES, np.uint8)])
        assert await moving.outcomes() == [Outcome.FAILED]
        health.heal()

        gate.set()
        await moving.ended

        await until(lambda: not trouble and not list((tmp_path / "fs" / "partial").iterdir()))
    finally:
        gate.set()
        store.close()
