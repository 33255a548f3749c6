"""Looking up and touching through a proxy."""

import pytest

from kvtier.client import (
    KvtierError,
    UnavailableError,
)
from kvtier.v1.lookup_pb2 import LookupBlocksResponse
from kvtier.v1.result_pb2 import ChainLookup
from kvtier.v1.tier_service_pb2 import TouchBlocksResponse
from kvtier.wire.errors import Reason, not_found, unavailable

from .fakes import fail
from .messages import FINGERPRINT, Script, block_set, hash_of, removed, stored
from .proxying import (
    DOWN,
    HIT,
    LIVE,
    MISS,
    RETRY,
    SUSPECT,
    answer,
    events,
    serving,
    settle,
    state_told,
    synced,
    touched,
)


async def test_a_lookup_asks_the_primary_and_reads_the_mirrors() -> None:
    """One call, to the primary; the first source that has a block wins."""
    async with serving("p", "s1", "s2") as (proxy, sources):
        await synced(proxy, sources, [1], [1, 2], [2, 3])
        sources[0].node.on("LookupBlocks", answer(HIT, MISS, MISS, MISS))

        (found,) = await proxy.lookup(FINGERPRINT, [block_set(1, 2, 3, 4)])

        assert found.results == (HIT, HIT, HIT, MISS)
        assert found.sources == (0, 1, 2, None)
        assert found.prefix_lengths == (1, 2, 0)
        assert found.longest == (1, 2)
        assert sources[0].node.names().count("LookupBlocks") == 1
        assert all("LookupBlocks" not in each.node.names() for each in sources[1:])


async def test_a_lookup_follows_what_the_secondaries_say() -> None:
    """A store is found and a removal is not, as soon as the event arrived."""
    async with serving("p", "s1") as (proxy, (primary, secondary)):
        await synced(proxy, (primary, secondary), [], [1])
        primary.node.on("LookupBlocks", answer(MISS, MISS))

        secondary.say(secondary.script.batch(removed(1), stored(2)))
        await events(proxy, 1)
        (found,) = await proxy.lookup(FINGERPRINT, [block_set(1, 2)])

    assert found.results == (MISS, HIT)


async def test_many_chains_are_one_call() -> None:
    """Each chain has its own answer, with its own group and scope."""
    async with serving("p", "s1") as (proxy, (primary, secondary)):
        await synced(proxy, (primary, secondary), [], [])
        secondary.say(secondary.script.batch(stored(1), stored(1, group=1), stored(2, group=1)))
        await events(proxy, 1)
        chains = [ChainLookup(results=[MISS]), ChainLookup(results=[MISS, MISS])]
        primary.node.on("LookupBlocks", lambda _: LookupBlocksResponse(chains=chains))

        found = await proxy.lookup(FINGERPRINT, [block_set(1), block_set(1, 2, group=1)])

        assert [each.results for each in found] == [(HIT,), (HIT, HIT)]
        assert [each.prefix_lengths for each in found] == [(0, 1), (0, 2)]
        assert primary.node.names().count("LookupBlocks") == 1


async def test_a_mirror_that_is_being_filled_makes_a_miss_a_retry() -> None:
    """Until synced a block may be there; a hit elsewhere is a hit all the same."""
    async with serving("p", "s1", "s2") as (proxy, (primary, filling, other)):
        for source, numbers in ((primary, [1]), (other, [2])):
            source.say(*source.script.start(stored(*numbers)))
        filling.say(
            filling.script.reset(), filling.script.namespace(), filling.script.page(stored(3))
        )
        await events(proxy, 11)
        primary.node.on("LookupBlocks", answer(HIT, MISS, MISS, MISS))

        (before,) = await proxy.lookup(FINGERPRINT, [block_set(1, 2, 3, 4)])
        filling.say(filling.script.synced(1))
        await events(proxy, 1)
        (after,) = await proxy.lookup(FINGERPRINT, [block_set(1, 2, 3, 4)])

    assert before.results == (HIT, HIT, RETRY, RETRY)
    assert before.prefix_lengths == (1, None, 0)
    assert after.results == (HIT, HIT, HIT, MISS)


async def test_a_secondary_that_is_suspect_is_asked_about_again() -> None:
    """A gap makes its misses and its hits uncertain until it has resumed."""
    async with serving("p", "s1") as (proxy, (primary, secondary)):
        await synced(proxy, (primary, secondary), [], [1])
        primary.node.on("LookupBlocks", answer(MISS))

        secondary.script.batch(stored(2))
        secondary.say(secondary.script.batch(stored(3)))
        await state_told(proxy, "s1", SUSPECT)
        (doubtful,) = await proxy.lookup(FINGERPRINT, [block_set(1)])
        await settle(lambda: len(secondary.followers) == 2)
        secondary.say(Script("s1").synced(1))
        await state_told(proxy, "s1", LIVE)
        (certain,) = await proxy.lookup(FINGERPRINT, [block_set(1)])

    assert doubtful.results == (RETRY,)
    assert certain.results == (HIT,)


async def test_a_dead_secondary_has_nothing() -> None:
    """What only a dead node held is a miss: nobody can load it now."""
    async with serving("p", "s1") as (proxy, (primary, secondary)):
        await synced(proxy, (primary, secondary), [], [1])
        primary.node.on("LookupBlocks", answer(MISS))

        await secondary.node.stop()
        await state_told(proxy, "s1", DOWN)
        (looked,) = await proxy.lookup(FINGERPRINT, [block_set(1)])

        assert looked.results == (MISS,)
        assert looked.prefix_lengths == (0, 0)
        assert proxy.index.quality("s1").name == "STALE"


async def test_a_primary_that_does_not_answer_is_told() -> None:
    """Without the primary a lookup has no answer, and says so."""
    async with serving("p", "s1") as (proxy, sources):
        await synced(proxy, sources, [], [1])
        sources[0].node.on("LookupBlocks", fail(unavailable("draining", Reason.DRAINING)))

        with pytest.raises(UnavailableError, match="draining"):
            await proxy.lookup(FINGERPRINT, [block_set(1)])


async def test_a_touch_reaches_the_primary_and_every_secondary() -> None:
    """One call each, with the request's id; each answers for itself."""
    async with serving("p", "s1", "s2") as (proxy, sources):
        await synced(proxy, sources, [1], [1], [1])
        for source in sources:
            tiers = [f"tier of {source.script.node_id}"]
            source.node.on("TouchBlocks", touched(tiers))
        sources[1].node.on("TouchBlocks", fail(not_found("what?", Reason.NAMESPACE_UNKNOWN)))

        answers = await proxy.touch(FINGERPRINT, [block_set(1)], request_id="r")

        first, second, third = answers
        assert isinstance(first, TouchBlocksResponse)
        assert list(first.tiers) == ["tier of p"]
        assert isinstance(second, KvtierError)
        assert second.reason == Reason.NAMESPACE_UNKNOWN
        assert isinstance(third, TouchBlocksResponse)
        for source in sources:
            (request,) = source.node.requests("TouchBlocks")
            assert request.request_id == "r"
            assert request.blocks[0].block_hashes == hash_of(1)


async def test_a_touch_does_not_wait_for_a_dead_secondary() -> None:
    """A node that is known to be down is answered for at once."""
    async with serving("p", "s1") as (proxy, (primary, secondary)):
        await synced(proxy, (primary, secondary), [1], [1])
        await secondary.node.stop()
        await state_told(proxy, "s1", DOWN)

        _, answer = await proxy.touch(FINGERPRINT, [block_set(1)])

        assert isinstance(answer, UnavailableError)
        assert secondary.node.endpoint in answer.message


@pytest.mark.parametrize(
    "chains", [[], [ChainLookup()], [ChainLookup(results=[HIT]), ChainLookup(results=[HIT])]]
)
async def test_a_primary_that_answers_something_else_is_named(chains: list[ChainLookup]) -> None:
    """Nothing is made of an answer that leaves blocks out."""
    async with serving("p") as (proxy, (primary,)):
        primary.node.on("LookupBlocks", lambda _: LookupBlocksResponse(chains=chains))

        with pytest.raises(UnavailableError, match=primary.node.endpoint):
            await proxy.lookup(FINGERPRINT, [block_set(1)])
