"""A node with a GPU tier, on a GPU as strict as a real one, over NumPy."""

import sys
from typing import Any

import pytest

from kvtier.v1.result_pb2 import LookupResult, WriteResult
from tests.unit.stores.fake_cupy import FakeCuda, make_cupy

from .conftest import Serve
from .support import blocks_of, cpu_tier, gpu_tier, payloads, run


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    cupy: Any = make_cupy()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return cupy.fake  # type: ignore[no-any-return]


async def test_blocks_on_a_gpu_are_read_back_byte_for_byte(serve: Serve, cuda: FakeCuda) -> None:
    """They cross through the kernel, and none crosses on the event loop."""
    node = await serve(gpu_tier(4, device="cuda:0"), cpu_tier(4))

    await node.client.store("gpu0", node.namespace, [run(1, 2)], payloads(1, 2))
    report = await node.client.load("gpu0", node.namespace, [blocks_of(1, 2, 3)])

    assert list(report.payloads) == [*payloads(1, 2), None]
    assert cuda.launches[0] == (2, 1)


async def test_the_host_tier_is_pinned_until_the_node_ends(serve: Serve, cuda: FakeCuda) -> None:
    """The memory is let go of before it is unmapped."""
    node = await serve(gpu_tier(4, device="cuda:0"), cpu_tier(4))
    pinned = set(cuda.pinned.sizes.values())
    await node.server.close()

    assert 4 * 64 in pinned
    assert 4 * 64 not in cuda.pinned.sizes.values()


async def test_a_gpu_that_fails_costs_its_own_blocks_alone(serve: Serve, cuda: FakeCuda) -> None:
    """No call breaks off, nothing that was not written is readable, and other tiers work on."""
    node = await serve(gpu_tier(4, device="cuda:0"), cpu_tier(4))
    await node.client.store("gpu0", node.namespace, [run(1)], payloads(1))
    cuda.broken = "cudaErrorIllegalAddress"

    stored = await node.client.store("gpu0", node.namespace, [run(2)], payloads(2))
    loaded = await node.client.load("gpu0", node.namespace, [blocks_of(1)])
    await node.client.store("cpu0", node.namespace, [run(3)], payloads(3))
    answer = await node.client.lookup(node.namespace, [blocks_of(1, 2, 3)], include_blocks=True)

    assert stored.results == (WriteResult.WRITE_RESULT_CORRUPT,)
    assert list(loaded.payloads) == [None]
    assert list(answer.chains[0].results) == [
        LookupResult.LOOKUP_RESULT_MISS,
        LookupResult.LOOKUP_RESULT_MISS,
        LookupResult.LOOKUP_RESULT_HIT,
    ]
