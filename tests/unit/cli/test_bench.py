"""A load on a node: what it compares, and what it removes."""

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import pytest

from kvtier.cli.bench.bench import _registered, bench_namespace
from kvtier.cli.bench.caller import Caller
from kvtier.cli.bench.measured import Measured
from kvtier.cli.bench.plan import Plan
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.client import (
    ExhaustedError,
    KvtierError,
    LoadReport,
    UnavailableError,
    UnimplementedError,
)
from kvtier.client.errors import Reason
from kvtier.v1.block_pb2 import BlockRun, BlockSet
from kvtier.v1.result_pb2 import ReadResult
from kvtier.wire.namespaces import fingerprint

PLAN = Plan("cpu0", block_bytes=40, blocks=2, chains=3, callers=1, seconds=1)
NAMESPACE = bench_namespace("mine", 40)


class FakeNode:
    """Keeps chains in memory, and the time, which each call takes a tick of."""

    endpoint = "n:1"

    def __init__(self) -> None:
        self.held: dict[bytes, tuple[bytes, ...]] = {}
        self.most = 0
        self.now = 0.0
        self.registered: list[bytes] = []
        self.damage = b""
        self.full_until = 0.0
        self.gone = False
        self.refusal: KvtierError | None = None

    def clock(self) -> float:
        return self.now

    async def store(
        self, tier: str, namespace: bytes, runs: Sequence[BlockRun], payloads: Sequence[bytes]
    ) -> object:
        self.now += 1
        assert (tier, namespace) == ("cpu0", fingerprint(NAMESPACE))
        if self.now <= self.full_until:
            code = grpc.StatusCode.RESOURCE_EXHAUSTED
            raise ExhaustedError(code, Reason.TIER_FULL, "full", retry_after=0.001)
        self.held[runs[0].block_hashes] = tuple(map(bytes, payloads))
        self.most = max(self.most, len(self.held))
        return object()

    async def lookup(self, namespace: bytes, chains: Sequence[BlockSet]) -> object:
        self.now += 1
        assert {chain.block_hashes for chain in chains} == set(self.held)
        return object()

    async def load(self, tier: str, namespace: bytes, blocks: Sequence[BlockSet]) -> LoadReport:
        self.now += 1
        first, *others = self.held[blocks[0].block_hashes]
        payloads = (self.damage or first, *others[:-1], None)
        return LoadReport(payloads, (ReadResult.READ_RESULT_UNSPECIFIED,) * 2)

    async def delete(self, namespace: bytes, blocks: Sequence[BlockSet]) -> object:
        self.now += 1
        del self.held[blocks[0].block_hashes]
        return object()

    async def register_namespace(self, description: Any) -> bytes:
        if self.refusal is not None:
            raise self.refusal
        self.registered.append(fingerprint(description))
        return self.registered[-1]

    async def delete_namespace(self, namespace: bytes, *, force: bool) -> None:
        assert force
        if self.gone:
            raise UnavailableError(grpc.StatusCode.UNAVAILABLE, "", "n:1 is gone")
        self.registered.remove(namespace)


@pytest.fixture(name="node")
def _node() -> FakeNode:
    return FakeNode()


async def work(node: Any, seconds: float) -> dict[str, dict[str, Any]]:
    measured = Measured()
    caller = Caller(node, PLAN, fingerprint(NAMESPACE), measured, node.clock)
    await caller.work(seconds)
    return {record["operation"]: record for record in measured.records(node.now)}


async def test_a_caller_keeps_so_many_chains_and_no_more(node: FakeNode) -> None:
    """The oldest makes room for the next; every kind of call is counted and timed."""
    told = await work(node, 12)

    assert node.most == 3
    # Three rounds of three calls, and one of four.
    assert {name: r["calls"] for name, r in told.items()} == {
        "lookup": 4,
        "store": 4,
        "load": 4,
        "delete": 1,
    }
    assert (told["store"]["blocks_per_s"], told["store"]["bytes_per_s"]) == (0.615, 24.615)
    assert told["load"]["p50_ms"] == 1000
    assert told["load"]["missed_blocks"] == 4
    assert told["lookup"]["blocks_per_s"] == round((2 + 4 + 6 + 6) / 13, 3)


async def test_other_bytes_than_were_stored_end_the_load(node: FakeNode) -> None:
    """A measurement of wrong answers is worth nothing."""
    node.damage = b"x" * 40

    with pytest.raises(CommandError, match="came back with other bytes than were stored"):
        await work(node, 12)


async def test_a_refusal_for_want_of_room_is_counted(node: FakeNode) -> None:
    """The caller goes on after the pause that the node asks for."""
    node.full_until = 2

    told = await work(node, 5)

    assert (told["store"]["refused"], told["store"]["calls"]) == (2, 1)


async def end_with(node: Any, error: type[BaseException]) -> None:
    async with _registered(node, NAMESPACE):
        assert node.registered == [fingerprint(NAMESPACE)]
        raise error


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt, ValueError])
async def test_the_namespace_goes_however_a_load_ends(
    node: FakeNode, error: type[BaseException]
) -> None:
    """On Ctrl-C and on failures too."""
    with pytest.raises(error):
        await end_with(node, error)

    assert node.registered == []


async def test_what_may_be_left_is_told(node: Any) -> None:
    """With the command that removes it."""
    node.gone = True

    with pytest.raises(CommandError, match="namespace mine may be left") as error:
        async with _registered(node, NAMESPACE):
            pass

    assert error.value.code is ExitCode.UNREACHABLE
    assert error.value.todo == "remove it: kvtier delete-namespace --force mine"


async def test_a_refused_registration_leaves_nothing_to_tell_of(node: Any) -> None:
    """What is told is why, as by a proxy, which would not let anything be removed either."""
    node.refusal = UnimplementedError(
        grpc.StatusCode.UNIMPLEMENTED, Reason.PROXY_ONLY_READS, "a proxy only reads"
    )

    with pytest.raises(UnimplementedError, match="a proxy only reads"):
        async with _registered(node, NAMESPACE):
            pass
