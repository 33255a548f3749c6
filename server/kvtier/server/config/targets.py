"""Which tiers a tier may hand blocks to."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtier.wire.sizes import format_size

if TYPE_CHECKING:
    from kvtier.server.config.tier import TierConfig


def check_targets(tiers: Sequence["TierConfig"]) -> None:
    """Check that blocks go to slower tiers only, whose slots they fit.

    Raises:
        ValueError: When a tier names another that cannot take its blocks.
    """
    for place, tier in enumerate(tiers):
        if len(set(tier.write_through)) < len(tier.write_through):
            raise ValueError(f"tier {tier.name}: write_through names a tier twice; name each once")
        slower = {other.name: other for other in tiers[place + 1 :]}
        targets = [("write_through", name) for name in tier.write_through]
        targets += [("on_evict", tier.on_evict)] if tier.on_evict else []
        for setting, name in targets:
            if name not in slower:
                raise ValueError(
                    f"tier {tier.name}: {setting} names {name!r}, which is not a slower tier of "
                    "this node; tiers are listed from fastest to slowest, and slower than "
                    f"{tier.name} are: {', '.join(slower) or 'none'}"
                )
            _check_slots(tier, setting, slower[name])


def _check_slots(tier: "TierConfig", setting: str, target: "TierConfig") -> None:
    if tier.slot_bytes and target.slot_bytes and target.slot_bytes < tier.slot_bytes:
        raise ValueError(
            f"tier {tier.name}: {setting} names {target.name!r}, whose slots of "
            f"{format_size(target.slot_bytes)} are too small for blocks of "
            f"{format_size(tier.slot_bytes)}; give it slot_bytes of as much, or leave slot_bytes "
            "of both out"
        )
