"""Nodes with a faster tier above a slower one, and short words for what is in them."""

from typing import Any

from kvtier.v1.result_pb2 import LookupResult

from .folding import Told
from .support import Serving, block_hash, blocks_of, cpu_tier, gpu_tier, words

GPU, CPU = "gpu0", "cpu0"


def exclusive(gpu: int, cpu: int, **fields: Any) -> list[dict[str, object]]:
    """The tiers of a node whose evicted blocks go down, and come back by moving."""
    settings: dict[str, Any] = {"on_evict": CPU, "free_target": 0, "demote_wait": 10}
    settings["promotion_limit"] = 1
    return [gpu_tier(gpu, **(settings | fields)), cpu_tier(cpu)]


def inclusive(gpu: int, cpu: int, **fields: Any) -> list[dict[str, object]]:
    """The tiers of a node that writes through, where what comes back is a copy."""
    settings: dict[str, Any] = {"write_through": [CPU], "promotion_limit": 1}
    return [gpu_tier(gpu, **(settings | fields)), cpu_tier(cpu)]


async def places(node: Serving, *blocks: object) -> list[str]:
    """Where each block is readable: "gpu0", "cpu0", both with a plus between, or ""."""
    answer = await node.client.lookup(node.namespace, [blocks_of(*blocks)], include_blocks=True)
    return [
        "+".join(tier for place, tier in enumerate(answer.tiers) if mask >> place & 1)
        for mask in answer.chains[0].tier_masks
    ]


async def load_up(node: Serving, *blocks: object, **fields: Any) -> list[str]:
    """Load blocks from the faster tier, brought up first; return the results, and let go again."""
    answer = await node.client.prepare_load(
        GPU,
        node.namespace,
        [blocks_of(*blocks)],
        **({"promote": True, "wait": True} | fields),
    )
    await node.client.complete_load(answer.lease)
    return words(LookupResult, answer.results)


def stored(block: object, tier: str) -> tuple[str, str, bytes, str]:
    """What is told of a block that became readable."""
    return "stored", tier, block_hash(block), ""


def removed(block: object, tier: str, reason: str) -> tuple[str, str, bytes, str]:
    """What is told of a block that ceased to be readable."""
    return "removed", tier, block_hash(block), reason


def by_batch(told: list[Told]) -> list[set[tuple[str, str, bytes, str]]]:
    """What each batch told, without the order inside it."""
    batches: dict[int, set[tuple[str, str, bytes, str]]] = {}
    for each in told:
        change = (each.what, each.tier, each.block_hash, each.reason)
        batches.setdefault(each.sequence, set()).add(change)
    return list(batches.values())
