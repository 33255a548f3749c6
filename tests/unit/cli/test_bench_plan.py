"""Whether a load may cost others their blocks is told before it begins."""

from typing import Any

import pytest

from kvtier.cli.bench.plan import Plan, block_bytes_for, choose_tier, dangers
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.v1.block_pb2 import Medium
from kvtier.v1.tier_pb2 import Tier

PLAN = Plan("cpu0", block_bytes=64, blocks=4, chains=5, callers=2, seconds=1)


def memory(name: str = "cpu0", **fields: Any) -> Tier:
    sizes = {"capacity_bytes": 6400, "slot_bytes": 64, "capacity_blocks": 100}
    return Tier(name=name, medium=Medium.MEDIUM_CPU, store_threshold=1, **sizes | fields)


def files(name: str = "fs0", **fields: Any) -> Tier:
    sizes = {"capacity_bytes": 1 << 30, "slot_bytes": 4096}
    return Tier(name=name, medium=Medium.MEDIUM_FS, store_threshold=1, **sizes | fields)


@pytest.mark.parametrize(
    ("tiers", "told"),
    [
        ([memory()], []),
        ([memory(ready_blocks=60)], []),
        ([memory(ready_blocks=61)], ["tier cpu0 has room for 39 of 40 blocks"]),
        (
            [memory(ready_blocks=50, pending_blocks=5, draining_blocks=5, quarantined_blocks=1)],
            ["tier cpu0 has room for 39 of 40 blocks"],
        ),
        ([memory(capacity_blocks=0, capacity_bytes=0)], ["tier cpu0 has room for 0 of 40 blocks"]),
        (
            [memory(slot_bytes=0, capacity_blocks=0)],
            ["tier cpu0 has no slots yet, and would have slots of 64 B from then on"],
        ),
        # Registering a namespace gives slots to every tier, also those that are not stored in.
        (
            [memory(), memory("cpu1", slot_bytes=0, capacity_blocks=0)],
            ["tier cpu1 has no slots yet, and would have slots of 64 B from then on"],
        ),
        ([memory(), memory("cpu1", ready_blocks=100)], []),
        (
            [memory(on_evict="cpu1"), memory("cpu1", ready_blocks=100)],
            ["tier cpu1 has room for 0 of 40 blocks"],
        ),
        (
            [
                memory(write_through=["cpu1", "fs0"]),
                memory("cpu1", on_evict="fs0"),
                files(used_bytes=1 << 30),
            ],
            ["tier fs0 has room for 0 of 40 blocks"],
        ),
        ([memory(write_through=["fs0"]), files()], []),
        (
            [memory(write_through=["fs0"]), files(capacity_bytes=1 << 16, used_bytes=1 << 17)],
            ["tier fs0 has room for 0 of 40 blocks"],
        ),
    ],
)
def test_what_may_be_lost_is_told(tiers: list[Tier], told: list[str]) -> None:
    """By the room in the tier and in those that its blocks go on to."""
    assert dangers(tiers, PLAN) == told


def test_the_fastest_tier_is_taken_unless_one_is_named() -> None:
    """A name that there is none of is told with those that there are."""
    tiers = [memory("gpu0"), memory("cpu0")]

    assert choose_tier("n:1", tiers, None).name == "gpu0"
    assert choose_tier("n:1", tiers, "cpu0").name == "cpu0"
    with pytest.raises(CommandError, match="tier 'cpu9' is unknown") as error:
        choose_tier("n:1", tiers, "cpu9")
    assert (error.value.code, error.value.todo) == (ExitCode.NOT_FOUND, "there are gpu0, cpu0")


def test_a_tier_that_defers_stores_is_refused() -> None:
    """Nothing of the load would be in it."""
    tier = memory()
    tier.store_threshold = 2

    with pytest.raises(CommandError, match="stores what was offered 2 times"):
        choose_tier("n:1", [tier], None)


def test_blocks_have_the_size_of_slots_by_default() -> None:
    """Where there are none, one that is usual."""
    assert block_bytes_for(memory()) == 64
    assert block_bytes_for(memory(slot_bytes=0)) == 65536
    assert block_bytes_for(files()) == 65536


def test_a_load_that_takes_much_memory_is_refused() -> None:
    """With how much it would be, and what to lower."""
    PLAN.check()

    with pytest.raises(CommandError, match=r"would have 16 GiB of payloads in memory") as error:
        PLAN._replace(block_bytes=1 << 30).check()

    assert error.value.code is ExitCode.USAGE
