"""Lookups at a proxy: answered from the index, of the nodes whose view is exact."""

from typing import Any

import pytest

from kvtier.v1.block_pb2 import BlockSet, Locality, Medium
from kvtier.v1.event_service_pb2 import TierState
from kvtier.v1.lookup_pb2 import LookupBlocksRequest, LookupBlocksResponse
from kvtier.v1.result_pb2 import LookupResult
from kvtier.wire.errors import KvtierError, Reason
from tests.contract.support import words
from tests.unit.client.messages import (
    FINGERPRINT,
    OTHER_FINGERPRINT,
    WIDTH,
    block_set,
    pack,
    stored,
)

from .behind import CONNECTING, DOWN, LIVE, MOST_HASHES, SUSPECT, Behind

RECOVERING, SILENT = TierState.TIER_STATE_RECOVERING, TierState.TIER_STATE_SILENT
READY = TierState.TIER_STATE_READY


async def look_up(
    behind: Behind, *chains: BlockSet, include_blocks: bool = True, **wanted: Any
) -> LookupBlocksResponse:
    request = LookupBlocksRequest(
        namespace=FINGERPRINT,
        chains=chains,
        include_blocks=include_blocks,
        **wanted,
    )
    return await behind.service.lookup_blocks(request)


def lengths(answer: LookupBlocksResponse, place: int = 0) -> dict[str, int]:
    """The reach of each tier in one chain."""
    return dict(zip(answer.tiers, answer.chains[place].prefix_lengths, strict=True))


def results(answer: LookupBlocksResponse, place: int = 0) -> list[str]:
    return words(LookupResult, answer.chains[place].results)


@pytest.fixture(name="two")
def _two() -> Behind:
    """A primary with two tiers and a secondary with one, all in sync."""
    behind = Behind("a", "b")
    behind.hears("a", stored(1, 2, tier="gpu0"), stored(1, tier="cpu0"), tiers=("gpu0", "cpu0"))
    behind.hears("b", stored(1, 2, 3, 5))
    return behind


async def test_each_tier_has_its_own_reach_and_all_have_one_together(two: Behind) -> None:
    """The primary's tiers come first, named by their node, and the union is over all nodes."""
    answer = await look_up(two, block_set(1, 2, 3, 4, 5))

    assert lengths(answer) == {"a/gpu0": 2, "a/cpu0": 1, "b/cpu0": 3}
    assert list(answer.tiers) == ["a/gpu0", "a/cpu0", "b/cpu0"]
    assert answer.chains[0].union_prefix_length == 3
    assert results(answer) == ["HIT", "HIT", "HIT", "MISS", "HIT"]
    assert list(answer.chains[0].tier_masks) == [0b111, 0b101, 0b100, 0, 0b100]
    assert answer.recovering_mask == 0


async def test_a_union_is_put_together_over_nodes() -> None:
    """A block that any tier has does not end it, whatever each reaches alone."""
    behind = Behind("a", "b")
    behind.hears("a", stored(1, 3))
    behind.hears("b", stored(2))

    answer = await look_up(behind, block_set(1, 2, 3), include_blocks=False)

    assert lengths(answer) == {"a/cpu0": 1, "b/cpu0": 0}
    assert answer.chains[0].union_prefix_length == 3
    assert list(answer.chains[0].results) == list(answer.chains[0].tier_masks) == []


async def test_every_chain_is_answered_in_its_group_and_scope(two: Behind) -> None:
    """What one chain holds is not told of another."""
    two.index.apply(two.scripts["b"].batch(stored(1, group=1, scope=b"tenant")))
    other = BlockSet(group=1, scope=b"tenant", block_hashes=pack([1, 2]))

    answer = await look_up(two, block_set(9), other, block_set(3))

    assert [lengths(answer, place)["b/cpu0"] for place in range(3)] == [0, 1, 1]
    assert [results(answer, place) for place in range(3)] == [["MISS"], ["HIT", "MISS"], ["HIT"]]


@pytest.mark.parametrize(
    ("state", "absent"), [(DOWN, "MISS"), (SUSPECT, "RETRY"), (CONNECTING, "RETRY")]
)
async def test_a_node_that_is_not_trusted_is_left_out(two: Behind, state: int, absent: str) -> None:
    """Its tiers are not named; what only it had is a miss when it is dead, and else not known."""
    two.turns("b", state)  # type: ignore[arg-type]

    answer = await look_up(two, block_set(1, 2, 3))

    assert lengths(answer) == {"a/gpu0": 2, "a/cpu0": 1}
    assert answer.chains[0].union_prefix_length == 2
    assert results(answer) == ["HIT", "HIT", absent]


async def test_a_dead_primary_is_left_out_too(two: Behind) -> None:
    """Lookups go on with the secondaries, since nobody is asked."""
    two.turns("a", DOWN)

    answer = await look_up(two, block_set(1, 4))

    assert lengths(answer) == {"b/cpu0": 1}
    assert results(answer) == ["HIT", "MISS"]


async def test_a_node_is_back_once_it_is_in_sync(two: Behind) -> None:
    """Being in touch again is not enough: its view has to be complete."""
    two.turns("b", SUSPECT)
    two.turns("b", LIVE)
    two.index.apply(two.scripts["b"].reset())
    during = await look_up(two, block_set(5))
    two.hears("b", stored(5))
    after = await look_up(two, block_set(5))

    assert results(during) == ["RETRY"]
    assert results(after) == ["HIT"]


async def test_a_member_that_was_never_heard_of_may_have_anything() -> None:
    """Until it said who it is a block is no miss, unless nobody is there."""
    behind = Behind("a", [])
    behind.hears("a", stored(1))

    unheard = await look_up(behind, block_set(1, 2))
    behind.members.members[1].states[""] = DOWN
    dead = await look_up(behind, block_set(1, 2))

    assert results(unheard) == ["HIT", "RETRY"]
    assert results(dead) == ["HIT", "MISS"]


async def test_a_recovering_tier_makes_misses_open() -> None:
    """What it told counts, and the mask names it by its place."""
    behind = Behind("a", "b")
    behind.hears("a", stored(1))
    behind.hears("b", stored(2), tiers=["cpu0", ("fs0", RECOVERING)])

    answer = await look_up(behind, block_set(1, 2, 3))

    assert answer.recovering_mask == 0b100
    assert list(answer.tiers) == ["a/cpu0", "b/cpu0", "b/fs0"]
    assert results(answer) == ["HIT", "HIT", "RETRY"]


async def test_a_silent_tier_is_not_spoken_of() -> None:
    """What it holds cannot be known from events: 0 would be a guess."""
    behind = Behind("a")
    behind.hears("a", stored(1), tiers=["cpu0", ("fs0", SILENT)])

    answer = await look_up(behind, block_set(1, 2))

    assert list(answer.tiers) == ["a/cpu0"]
    assert results(answer) == ["HIT", "MISS"]


FILTERS = {
    "a medium": ({"media": [Medium.MEDIUM_GPU]}, ["a/gpu0"]),
    "media": ({"media": [Medium.MEDIUM_GPU, Medium.MEDIUM_OBJ]}, ["a/gpu0", "b/obj0"]),
    "a locality": ({"localities": [Locality.LOCALITY_REMOTE]}, ["b/obj0"]),
    "both": (
        {"media": [Medium.MEDIUM_GPU], "localities": [Locality.LOCALITY_REMOTE]},
        [],
    ),
    "none": ({}, ["a/gpu0", "a/any", "b/obj0"]),
}


@pytest.mark.parametrize(("wanted", "tiers"), FILTERS.values(), ids=FILTERS.keys())
async def test_only_tiers_of_the_wanted_media_and_localities_count(
    wanted: dict[str, Any], tiers: list[str]
) -> None:
    """A tier of which neither is known passes no filter; the others are as if not there."""
    behind = Behind("a", "b")
    local, remote = Locality.LOCALITY_LOCAL, Locality.LOCALITY_REMOTE
    held = [stored(place, tier=tier) for place, tier in enumerate(("gpu0", "any"))]
    behind.hears("a", *held, tiers=[("gpu0", READY, Medium.MEDIUM_GPU, local), "any"])
    named = [("obj0", RECOVERING, Medium.MEDIUM_OBJ, remote)]
    behind.hears("b", stored(2, tier="obj0"), tiers=named)
    blocks = {"a/gpu0": 0, "a/any": 1, "b/obj0": 2}

    answer = await look_up(behind, block_set(0, 1, 2), **wanted)

    hits = {blocks[tier] for tier in tiers}
    absent = "RETRY" if "b/obj0" in tiers else "MISS"
    assert list(answer.tiers) == tiers
    assert results(answer) == ["HIT" if block in hits else absent for block in range(3)]
    recovering = [place for place, tier in enumerate(tiers) if tier == "b/obj0"]
    assert answer.recovering_mask == sum(1 << place for place in recovering)


async def test_masks_tell_of_the_first_32_tiers_and_lengths_of_all() -> None:
    """A block that only a later tier has is a hit without a bit."""
    names = [f"n{number:02}" for number in range(40)]
    behind = Behind(*names)
    for name in names:
        behind.hears(name, *([stored(1)] if name in {"n00", "n31", "n32"} else []))
    behind.index.apply(behind.scripts["n39"].batch(stored(2)))

    answer = await look_up(behind, block_set(1, 2))

    assert len(answer.tiers) == 40
    assert [n for n, length in lengths(answer).items() if length] == [
        "n00/cpu0", "n31/cpu0", "n32/cpu0",
    ]  # fmt: skip
    assert list(answer.chains[0].tier_masks) == [1 | 1 << 31, 0]
    assert results(answer) == ["HIT", "HIT"]
    assert answer.chains[0].union_prefix_length == 2


async def test_nodes_behind_a_proxy_are_nodes_like_others() -> None:
    """An endpoint that is a proxy brings several, each with a state of its own."""
    behind = Behind("a", ["b", "c"])
    behind.hears("a")
    behind.hears("b", stored(1))
    behind.hears("c", stored(1, 2))
    behind.turns("b", DOWN)

    answer = await look_up(behind, block_set(1, 2, 3))

    assert lengths(answer) == {"a/cpu0": 0, "c/cpu0": 2}
    assert results(answer) == ["HIT", "HIT", "MISS"]


@pytest.mark.parametrize("count", [4095, 4096, 4097, 10_000])
async def test_long_chains_are_looked_up_in_steps_without_a_seam(count: int) -> None:
    """A reach that crosses the steps is whole, and so are the results."""
    behind = Behind("a", "b")
    behind.hears("a", stored(*range(count)))
    behind.hears("b", stored(*range(4096)))

    answer = await look_up(behind, block_set(*range(count + 2)))

    assert lengths(answer) == {"a/cpu0": count, "b/cpu0": min(4096, count + 2)}
    assert answer.chains[0].union_prefix_length == max(count, min(4096, count + 2))
    assert len(answer.chains[0].results) == len(answer.chains[0].tier_masks) == count + 2


REFUSED = {
    "no chains": ({"chains": []}, "INVALID_ARGUMENT", "chains is empty"),
    "too many hashes": (
        {"chains": [BlockSet(block_hashes=bytes(WIDTH * (MOST_HASHES + 1)))]},
        "INVALID_ARGUMENT",
        f"at most {MOST_HASHES}",
    ),
    "an empty chain": ({"chains": [BlockSet()]}, "INVALID_ARGUMENT", "block_hashes"),
    "half a hash": ({"chains": [BlockSet(block_hashes=b"abc")]}, "INVALID_ARGUMENT", "3 bytes"),
    "no such group": ({"chains": [block_set(1, group=2)]}, "INVALID_ARGUMENT", "group is 2"),
    "a long scope": (
        {"chains": [BlockSet(scope=bytes(33), block_hashes=pack([1]))]},
        "INVALID_ARGUMENT",
        "scope has 33 bytes",
    ),
    "an unknown medium": ({"media": [77]}, "INVALID_ARGUMENT", "medium 77"),
    "an unknown locality": ({"localities": [77]}, "INVALID_ARGUMENT", "locality 77"),
    "no fingerprint": ({"namespace": b"short"}, "INVALID_ARGUMENT", "namespace has 5 bytes"),
    "an unknown namespace": ({"namespace": OTHER_FINGERPRINT}, "NOT_FOUND", "no node behind"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
async def test_a_malformed_lookup_is_refused(
    two: Behind, case: tuple[dict[str, object], str, str]
) -> None:
    """The value that is wrong is named, with the status that a node gives."""
    changed, code, said = case
    fields = {"namespace": FINGERPRINT, "chains": [block_set(1)], **changed}

    with pytest.raises(KvtierError, match=said) as error:
        await two.service.lookup_blocks(LookupBlocksRequest(**fields))  # type: ignore[arg-type]

    assert error.value.code.name == code
    assert error.value.reason in set(Reason)
