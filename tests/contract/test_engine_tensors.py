"""Blocks go from one engine's tensors through a node to another's."""

from typing import Any

import pytest

from kvtier.v1.namespace_pb2 import Namespace

from .conftest import Serve
from .support import blocks_of, cpu_tier, gpu_tier, run

torch: Any = pytest.importorskip("torch", reason="torch is not installed; see the group torch-cpu")

from kvtier.client.torch import PagedKV, buffers  # noqa: E402 - needs torch


@pytest.mark.parametrize("make_tier", [cpu_tier, gpu_tier])
async def test_blocks_reach_another_engine_byte_for_byte(serve: Serve, make_tier: Any) -> None:
    """Kept in another layout there; a block that is missing is told, and not scattered."""
    torch.manual_seed(1)
    kept = [torch.randn(2, 8, 16, 4, 32).to(torch.bfloat16) for _ in range(2)]
    loaded = torch.zeros(2, 8, 2, 16, 4, 32, dtype=torch.bfloat16)
    ours, theirs = PagedKV(kept, block_dim=1), PagedKV(loaded, block_dim=1)
    size = ours.block_bytes
    node = await serve(make_tier(0, "tier0", capacity=4 * size, slot_bytes=size), register=False)
    described = Namespace(
        name="engine",
        model="m",
        tokens_per_block=16,
        tp_size=1,
        pp_size=1,
        hash_algorithm="sha256",
        hash_width=32,
        **ours.describe(),
    )
    space = await node.client.register_namespace(described)

    await node.client.store("tier0", space, [run("a", "b")], buffers(ours.gather([3, 6])))
    report = await node.client.load("tier0", space, [blocks_of("a", "b", "c")])
    theirs.scatter([0, 5], [payload for payload in report.payloads if payload is not None])

    assert report.payloads[2] is None
    for layer in range(2):
        assert torch.equal(loaded[layer, 0], kept[layer][:, 3])
        assert torch.equal(loaded[layer, 5], kept[layer][:, 6])
    assert theirs.describe() == ours.describe()
