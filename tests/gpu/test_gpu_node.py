"""A node with a tier on a real GPU."""

import pytest

from tests.contract.conftest import Serve, serve
from tests.contract.support import blocks_of, cpu_tier, namespace, payload, run

pytestmark = pytest.mark.gpu
__all__ = ["serve"]

SIZE = 300_001


async def test_blocks_are_stored_and_loaded_byte_for_byte(serve: Serve) -> None:
    """Small and large ones, beside a host tier that is pinned."""
    sizes = [64, SIZE]
    tier = {"name": "gpu0", "medium": "gpu", "device": "cuda:0"}
    node = await serve(
        tier | {"capacity": 8 * SIZE, "slot_bytes": SIZE}, cpu_tier(4), register=False
    )
    space = await node.client.register_namespace(namespace(block_bytes=sizes))
    for group, size in enumerate(sizes):
        blocks = [payload(each, size) for each in range(3)]

        await node.client.store("gpu0", space, [run(0, 1, 2, group=group)], blocks)
        report = await node.client.load("gpu0", space, [blocks_of(0, 1, 2, 3, group=group)])

        assert list(report.payloads) == [*blocks, None]
    assert (await node.tier("gpu0")).device == "cuda:0"
