"""All tiers of a node have one order, and a filter leaves parts out without leaving gaps."""

from typing import Any

import pytest

from kvtier.v1.block_pb2 import Medium
from kvtier.v1.event_service_pb2 import EventBatch

from .conftest import Serve
from .folding import Facts, Key, listed
from .following import following
from .support import Serving, cpu_tier, gpu_tier, namespace, payloads, run
from .writing import writing

GPU, CPU = Medium.MEDIUM_GPU, Medium.MEDIUM_CPU
QWEN = namespace("qwen")
TIERS = [gpu_tier(4), cpu_tier(8), cpu_tier(8, name="cpu1")]

# What a follower asks for, and which tiers and models it then sees.
WANTED: dict[str, tuple[dict[str, Any], set[str], set[str]]] = {
    "a tier": ({"tiers": ["cpu1"]}, {"cpu1"}, {"llama", "qwen"}),
    "tiers": ({"tiers": ["cpu1", "gpu0"]}, {"cpu1", "gpu0"}, {"llama", "qwen"}),
    "a tier twice": ({"tiers": ["gpu0", "gpu0"]}, {"gpu0"}, {"llama", "qwen"}),
    "a medium": ({"media": [CPU]}, {"cpu0", "cpu1"}, {"llama", "qwen"}),
    "both media": ({"media": [CPU, GPU]}, {"gpu0", "cpu0", "cpu1"}, {"llama", "qwen"}),
    "a tier of another medium": ({"tiers": ["cpu0"], "media": [GPU]}, set(), set()),
    "a model": ({"models": ["qwen"]}, {"gpu0", "cpu0", "cpu1"}, {"qwen"}),
    "a model in a tier": ({"models": ["qwen"], "tiers": ["cpu0"]}, {"cpu0"}, {"qwen"}),
    "a model that nobody has": ({"models": ["other"]}, {"gpu0", "cpu0", "cpu1"}, set()),
}


async def churn(node: Serving, fingerprints: dict[str, bytes]) -> None:
    """Store, evict and clear in every tier, of two models."""
    for step in range(24):
        tier = ("gpu0", "cpu0", "cpu1")[step % 3]
        model = ("llama", "qwen")[step % 2]
        blocks = [(step, 0), (step, 1)]
        await node.client.store(tier, fingerprints[model], [run(*blocks)], payloads(*blocks))
        if step == 11:
            await node.client.clear("cpu0")
        if step == 17:
            await node.client.clear("cpu1", fingerprints["qwen"])


def left(batch: EventBatch, tiers: set[str], namespaces: set[bytes]) -> EventBatch:
    """Return what a filter should leave of a batch."""
    whole = namespaces | {b""}
    return EventBatch(
        sequence=batch.sequence,
        cleared=[e for e in batch.cleared if e.tier in tiers and e.namespace in whole],
        removed=[e for e in batch.removed if e.tier in tiers and e.namespace in namespaces],
        stored=[e for e in batch.stored if e.tier in tiers and e.namespace in namespaces],
    )


async def test_tiers_share_one_order(serve: Serve) -> None:
    """What was done to several tiers one after the other is told in that order, and no other."""
    node = await serve(*TIERS)
    steps = ["gpu0", "cpu1", "cpu0", "cpu0", "gpu0", "cpu1"]
    async with following(node.endpoint) as follower:
        for place, tier in enumerate(steps):
            await node.store(place, tier=tier)
        await follower.settle(node.client)

    told = [(each.sequence, each.tier) for each in follower.fold.told]
    assert told == list(enumerate(steps, start=1))


@pytest.mark.parametrize(("wanted", "tiers", "models"), WANTED.values(), ids=WANTED.keys())
async def test_a_filter_passes_its_part_of_every_batch(
    serve: Serve, wanted: dict[str, Any], tiers: set[str], models: set[str]
) -> None:
    """A filtered stream is the whole one with parts left out, and accounts for every sequence."""
    node = await serve(*TIERS)
    fingerprints = {"llama": node.namespace, "other": b"o" * 32}
    fingerprints["qwen"] = await node.client.register_namespace(QWEN)
    request = dict(wanted)
    if "models" in request:
        request["namespaces"] = [fingerprints[model] for model in request.pop("models")]
    async with following(node.endpoint) as whole, following(node.endpoint, **request) as part:
        await churn(node, fingerprints)
        await whole.settle(node.client)
        await part.settle(node.client)
        async with following(node.endpoint, **request) as late:
            pass

    seen = {fingerprints[model] for model in models}
    expected = [left(batch, tiers, seen) for batch in whole.batches]
    assert part.batches == [e for e in expected if e.cleared or e.removed or e.stored]
    kept = {k: f for k, f in whole.fold.view.items() if k.tier in tiers and k.namespace in seen}
    assert part.fold.view == late.fold.view == kept
    assert part.fold.through == whole.fold.through


def visible(listing: dict[Key, Facts], medium: int) -> dict[Key, Facts]:
    prefix = {GPU: "gpu", CPU: "cpu"}[Medium.ValueType(medium)]
    return {key: facts for key, facts in listing.items() if key.tier.startswith(prefix)}


async def test_filtered_followers_keep_up_with_a_busy_node(serve: Serve) -> None:
    """A follower of a quiet part of a busy node is told of its place all the same."""
    node = await serve(*TIERS)
    async with following(node.endpoint, media=[GPU]) as quiet:
        async with writing(node, "cpu0", "cpu1") as writers:
            await quiet.until(lambda: writers.calls > 100)
        await quiet.settle(node.client)

    assert not quiet.batches
    assert quiet.fold.through == (await node.client.get_node()).head.sequence
    assert quiet.fold.view == visible(await listed(node.client), GPU)
    assert quiet.kinds.count("progress") < 100
