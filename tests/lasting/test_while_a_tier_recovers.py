"""A node serves while a tier finds out what it holds, and never takes unknown for absent."""

from collections.abc import AsyncIterator

import pytest

from kvtier.server.lasting import recovery
from kvtier.server.operations.describing import list_tiers
from kvtier.server.operations.loading import prepare_load
from kvtier.v1.block_pb2 import LOCALITY_LOCAL
from kvtier.v1.event_service_pb2 import TierState
from kvtier.v1.lookup_pb2 import LookupBlocksRequest, LookupBlocksResponse
from kvtier.v1.result_pb2 import LookupResult
from kvtier.v1.tier_service_pb2 import PrepareLoadRequest, PrepareLoadResponse
from tests.contract.support import BLOCK_BYTES, blocks_of, cpu_tier, words
from tests.unit.server.support import LocalNode
from tests.waiting import until

from .lives import COST, FS, HeldShelf, chain, fs_tier, lay, upkeep


@pytest.fixture
async def node(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalNode]:
    """A node whose second tier has found two of its four blocks."""
    monkeypatch.setattr(recovery, "_BATCH", 2)
    shelf = HeldShelf(2)
    lay(shelf, chain(1, 2, 3, 4))
    node = LocalNode(cpu_tier(4), fs_tier(10), shelves={FS: shelf})
    async with upkeep(node, FS):
        await until(lambda: node.node.tier(FS).occupancy.ready == 2)
        yield node


def finish(node: LocalNode) -> None:
    shelf = node.shelves[FS]
    assert isinstance(shelf, HeldShelf)
    shelf.let_through()


async def load(node: LocalNode, tier: str, *, promote: bool = False) -> list[str]:
    """Say what a load of the blocks and one more is answered."""
    request = PrepareLoadRequest(
        tier=tier,
        namespace=node.namespace,
        blocks=[blocks_of(1, 4, 5)],
        lease_id=node.new_id(),
        owner="engine",
        promote=promote,
    )
    answer = PrepareLoadResponse.FromString(await prepare_load(node.node, request))
    return words(LookupResult, answer.results)


def look_up(node: LocalNode) -> LookupBlocksResponse:
    request = LookupBlocksRequest(
        namespace=node.namespace, chains=[blocks_of(1, 2, 3, 4, 5)], include_blocks=True
    )
    answer = node.tiers.lookup_blocks(request)
    assert isinstance(answer, LookupBlocksResponse)
    return answer


async def test_a_lookup_says_retry_for_what_is_not_known_yet(node: LocalNode) -> None:
    """What was found is a hit at once; the answer names the tier that may yet have the rest."""
    answer = look_up(node)
    assert words(LookupResult, answer.chains[0].results) == ["RETRY"] * 2 + ["HIT"] * 2 + ["RETRY"]
    assert answer.recovering_mask == 0b10

    finish(node)
    await until(lambda: not node.node.tier(FS).health.recovering)

    answer = look_up(node)
    assert words(LookupResult, answer.chains[0].results) == ["HIT"] * 4 + ["MISS"]
    assert not answer.recovering_mask
    assert list(answer.chains[0].prefix_lengths) == [0, 4]


async def test_a_load_says_retry_for_what_is_not_known_yet(node: LocalNode) -> None:
    """So does one that would bring blocks up, but not one of a tier that knows what it holds."""
    assert await load(node, FS) == ["RETRY", "HIT", "RETRY"]
    assert await load(node, "cpu0") == ["MISS"] * 3
    assert (await load(node, "cpu0", promote=True))[::2] == ["RETRY"] * 2

    finish(node)
    await until(lambda: not node.node.tier(FS).health.recovering)

    assert await load(node, FS) == ["HIT", "HIT", "MISS"]


async def test_the_list_of_tiers_tells_how_far_it_is(node: LocalNode) -> None:
    """State, reason, blocks looked at and to look at, and the bytes in use of every tier."""
    memory, files = list_tiers(node.node).tiers
    assert (files.state, files.state_reason) == (TierState.TIER_STATE_RECOVERING, "50 %")
    assert (files.recovered_blocks, files.recovering_blocks) == (2, 4)
    assert (files.used_bytes, files.locality) == (2 * COST, LOCALITY_LOCAL)
    assert (memory.state, memory.state_reason) == (TierState.TIER_STATE_READY, "")
    assert memory.locality == LOCALITY_LOCAL
    assert not memory.used_bytes

    node.store(1, 2)
    finish(node)
    await until(lambda: not node.node.tier(FS).health.recovering)

    memory, files = list_tiers(node.node).tiers
    assert (files.state, files.state_reason) == (TierState.TIER_STATE_READY, "")
    assert (files.recovered_blocks, files.recovering_blocks) == (4, 4)
    assert memory.used_bytes == 2 * BLOCK_BYTES


async def test_a_silent_tier_that_recovers_says_so_in_the_list(monkeypatch: object) -> None:
    """Followers hear that it is silent, whatever else it is: what it holds they cannot know."""
    shelf = HeldShelf(0)
    lay(shelf, chain(1))
    node = LocalNode(fs_tier(10, events=False), shelves={FS: shelf})
    async with upkeep(node):
        (listed,) = list_tiers(node.node).tiers
        (told,) = node.node.tier_infos()
        assert listed.state == TierState.TIER_STATE_RECOVERING
        assert told.state == TierState.TIER_STATE_SILENT
        finish(node)
        await until(lambda: not node.tier.health.recovering)

        (listed,) = list_tiers(node.node).tiers
        assert listed.state == TierState.TIER_STATE_SILENT
        assert not node.batches()
