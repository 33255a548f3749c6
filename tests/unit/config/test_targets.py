"""Tiers that hand blocks to others: only to slower ones, and only what fits."""

import pytest
from pydantic import ValidationError

from kvtier.server.config import NodeConfig


def tier(name: str, **settings: object) -> dict[str, object]:
    return {"name": name, "medium": "cpu", "capacity": "1MiB", **settings}


def node(*tiers: dict[str, object]) -> NodeConfig:
    return NodeConfig.model_validate({"node_id": "n", "tiers": tiers})


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"on_evict": "fast"}, "slower than middle are: slow"),
        ({"on_evict": "middle"}, "slower than middle are: slow"),
        ({"write_through": ["slow", "absent"]}, "'absent', which is not a slower tier"),
        ({"write_through": ["slow", "slow"]}, "names a tier twice"),
        ({"on_evict": "slow", "slot_bytes": "8KiB"}, "too small for blocks of 8 KiB"),
        ({"write_through": ["slow"], "slot_bytes": "8KiB"}, "slots of 4 KiB are too small"),
    ],
)
def test_a_target_that_cannot_take_the_blocks_is_refused(
    settings: dict[str, object], says: str
) -> None:
    """The error names the tier, the setting, and what would do."""
    with pytest.raises(ValidationError, match=says):
        node(tier("fast"), tier("middle", **settings), tier("slow", slot_bytes="4KiB"))


@pytest.mark.parametrize(
    "settings",
    [
        {"on_evict": "slow"},
        {"write_through": ["middle", "slow"]},
        {"on_evict": "middle", "write_through": ["slow"], "slot_bytes": "4KiB"},
    ],
)
def test_slower_tiers_with_room_for_the_blocks_are_accepted(settings: dict[str, object]) -> None:
    """One tier may take over, several may be written through to."""
    config = node(tier("fast", **settings), tier("middle"), tier("slow", slot_bytes="4KiB"))

    assert config.tiers[0].name == "fast"


def test_tiers_that_change_blocks_have_spare_bytes() -> None:
    """As much as the capacity, 16 MiB at most; the others have none."""
    config = node(
        tier("a", on_evict="b", capacity="64MiB"),
        tier("b"),
        tier("c", write_through=["d"]),
        tier("d"),
    )

    assert [config.spare_bytes(each) for each in config.tiers] == [16 << 20, 1 << 20, 0, 0]
