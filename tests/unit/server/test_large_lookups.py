"""A lookup of many blocks is answered step by step, as if it were answered at once."""

import asyncio
import inspect
from random import Random

import pytest

from kvtier.server.operations import looking
from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.lookup_pb2 import LookupBlocksRequest, LookupBlocksResponse
from tests.contract.support import cpu_tier, gpu_tier, hashes, run

from .conftest import MakeNode
from .support import LocalNode, at_once

BLOCKS = 12


async def look_up(node: LocalNode, *chains: list[int]) -> LookupBlocksResponse:
    """Ask for chains of numbered blocks."""
    request = LookupBlocksRequest(
        namespace=node.namespace,
        chains=[BlockSet(block_hashes=hashes(*chain)) for chain in chains],
        include_blocks=True,
    )
    answer = node.tiers.lookup_blocks(request)
    return answer if isinstance(answer, LookupBlocksResponse) else await answer


def store_in(node: LocalNode, tier: str, *blocks: int) -> None:
    """Store numbered blocks in a tier, each by itself."""
    for block in blocks:
        request = node.offer(run(block))
        request.tier = tier
        prepared = at_once(node.tiers.prepare_store(request))
        assert prepared
        (lease,) = [each for each in node.node.leases if each.id == request.lease_id]
        lease.tier.mark_written(list(lease.slots.values()), [0])
        node.complete(lease)


@pytest.mark.parametrize("step", [1, 2, 5])
async def test_steps_change_no_answer(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Prefixes, their union, results and tiers are the same, wherever the holes are."""
    random = Random(step)
    node = make_node(gpu_tier(BLOCKS), cpu_tier(BLOCKS))
    for tier in ("gpu0", "cpu0"):
        store_in(node, tier, *random.sample(range(BLOCKS), BLOCKS - 3))
    chains = [random.sample(range(BLOCKS), random.randint(1, BLOCKS)) for _ in range(40)]
    chains.append(list(range(BLOCKS)))
    whole = await look_up(node, *chains)

    monkeypatch.setattr(looking, "_STEP", step)

    assert await look_up(node, *chains) == whole
    assert len({chain.union_prefix_length for chain in whole.chains}) > 3


async def test_a_short_lookup_does_not_wait_for_long_ones(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is answered at once, and of the long ones one is at work at a time."""
    monkeypatch.setattr(looking, "_STEP", 1)
    node = make_node(cpu_tier(BLOCKS))
    store_in(node, "cpu0", *range(BLOCKS))
    long = [asyncio.create_task(look_up(node, list(range(BLOCKS)))) for _ in range(3)]
    await asyncio.sleep(0)

    held = node.node.large_lookups.locked()
    short = await look_up(node, [0])
    under_way = [task.done() for task in long]
    answers = await asyncio.gather(*long)

    assert held
    assert short.chains[0].union_prefix_length == 1
    assert under_way == [False] * 3
    assert [answer.chains[0].union_prefix_length for answer in answers] == [BLOCKS] * 3
    assert not node.node.large_lookups.locked()


async def test_bad_blocks_in_a_long_lookup_are_refused(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a short one, and the next has its turn."""
    monkeypatch.setattr(looking, "_STEP", 1)
    node = make_node(cpu_tier(BLOCKS))
    request = LookupBlocksRequest(
        namespace=node.namespace, chains=[BlockSet(block_hashes=hashes(1, 2, 3) + b"x")]
    )

    answer = node.tiers.lookup_blocks(request)

    assert inspect.isawaitable(answer)
    with pytest.raises(Exception, match="97 bytes"):
        await answer
    assert not node.node.large_lookups.locked()
