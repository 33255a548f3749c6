"""Tiers under `arc`: what more than one request used outlives what only one did."""

from .conftest import Follow, Serve
from .support import ANY_TIER, MakeTier, block_hash, payloads, run
from .ways import Store


async def test_a_shared_prefix_outlives_prompts_that_nobody_repeats(
    serve: Serve, follow: Follow, any_tier: MakeTier, store: Store
) -> None:
    """Twenty prompts of their own push each other out, and the prefix of two requests stays."""
    node = await serve({**any_tier(6), "policy": "arc"})
    follower = await follow(node)

    async def ask(request: str, *blocks: str) -> None:
        offer = [run(*blocks)], payloads(*blocks)
        await store(node.client, ANY_TIER, node.namespace, *offer, request_id=request)

    for request in ("first", "second"):
        await ask(request, "system", "tools")

    for number in range(20):
        await ask(str(number), f"{number}a", f"{number}b", f"{number}c")

    left = ("system", "tools", "19a", "19b", "19c", "18a")
    assert await node.look_up(*left) == ["HIT"] * 6
    await follower.settle()
    assert {key.block_hash for key in follower.fold.view} == {*map(block_hash, left)}
