"""A device that fails in the middle of a call costs the blocks it failed for, and nothing else."""

import pytest
from structlog.testing import capture_logs

from kvtier.v1.transfer_service_pb2 import ReadBlocksRequest, ReadTarget, WriteBlocksRequest
from tests.contract.support import payload, run

from .support import TIER, LocalNode, MemoryStore
from .transferring import Upload, data, part, read, write

FAILURES = [RuntimeError("cudaErrorIllegalAddress"), OSError(5, "Input/output error")]


def break_store(
    node: LocalNode, monkeypatch: pytest.MonkeyPatch, name: str, error: Exception
) -> None:
    """Let one method of the first tier's store fail."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(node.stores[0], name, fail)


@pytest.mark.parametrize("error", FAILURES)
async def test_a_block_that_cannot_be_written_is_never_readable(
    node: LocalNode, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """It is given back, and no event tells of it."""
    monkeypatch.setattr(MemoryStore, "inline_bytes", 0)
    break_store(node, monkeypatch, "write_many", error)
    offer = WriteBlocksRequest(offer=node.offer(run("a", "b")))

    upload = await write(node.transfers, offer, data(0, payload("a"), payload("b")))

    assert upload.results() == {0: "CORRUPT", 1: "CORRUPT"}
    assert node.gauges() == {"free": 4}
    assert node.batches() == []


async def test_a_block_of_which_one_part_cannot_be_written_is_never_readable(
    node: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although all that came after it was."""
    lease, _ = node.prepare(run("a"))
    upload = Upload(node.transfers, WriteBlocksRequest(lease=lease.reference()))
    with monkeypatch.context() as broken:
        break_store(node, broken, "write_many", FAILURES[0])
        await upload.send(part(0, payload("a"), 0, 32))
    await upload.send(part(0, payload("a"), 32, 64))

    assert await upload.end() == {0: "CORRUPT"}
    again = await write(
        node.transfers, WriteBlocksRequest(lease=lease.reference()), data(0, payload("a"))
    )
    assert again.results() == {0: "WRITTEN"}


@pytest.mark.parametrize("inline_bytes", [0, 1 << 20])
@pytest.mark.parametrize("error", FAILURES)
async def test_a_block_that_cannot_be_read_is_dropped_and_told(
    node: LocalNode, monkeypatch: pytest.MonkeyPatch, error: Exception, inline_bytes: int
) -> None:
    """As one whose bytes are not what they were; the call goes on."""
    monkeypatch.setattr(MemoryStore, "inline_bytes", inline_bytes)
    node.store("a", "b")
    break_store(node, monkeypatch, "read", error)
    target = ReadTarget(tier=TIER, namespace=node.namespace, blocks=node.blocks("a", "x"))

    download = await read(node.transfers, ReadBlocksRequest(blocks=target))

    assert download.results() == {0: "CORRUPT", 1: "MISS"}
    assert node.gauges() == {"free": 3, "ready": 1}


async def test_blocks_that_cannot_be_read_are_one_line(
    node: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says how many there were, and why for the first; none has a line of its own."""
    monkeypatch.setattr(MemoryStore, "inline_bytes", 0)
    node.store("a", "b", "c")
    break_store(node, monkeypatch, "read", FAILURES[0])
    target = ReadTarget(tier=TIER, namespace=node.namespace, blocks=node.blocks("a", "b", "c"))

    with capture_logs() as lines:
        await read(node.transfers, ReadBlocksRequest(blocks=target))

    (line,) = lines
    assert (line["event"], line["blocks"]) == ("blocks cannot be read", 3)
    assert line["reason"] == str(FAILURES[0])
