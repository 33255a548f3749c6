"""Which tiers of a node give blocks to which."""

from collections.abc import Sequence
from dataclasses import dataclass

from kvtier.server.config import TierConfig
from kvtier.server.tiers.tier import Tier

_STEP_BLOCKS = 256
_STEP_BYTES = 64 << 20
# Shelves are slower: what a step has moved when a store stops waiting is of use to it.
_SHELF_STEP_BYTES = 16 << 20
# Beside a copy a tier must be able to do other things: a step holds a part of it.
_STEP_PART = 4
_BATCH_TOKENS = 1 << 17


@dataclass(frozen=True, slots=True)
class Link:
    """What a tier's configuration says of its neighbours.

    Attributes:
        through: The tiers that it writes through to.
        demote_wait: How long a store waits for a copy, in seconds.
        free_target: The part of its slots that is kept free.
        promotion_limit: The part of its slots up to which promotions may begin.
    """

    through: tuple[Tier, ...]
    demote_wait: float
    free_target: float
    promotion_limit: float


def link(configs: Sequence[TierConfig], tiers: Sequence[Tier]) -> dict[Tier, Link]:
    """Connect tiers as their configuration says, and return the links of each."""
    by_name = {tier.name: tier for tier in tiers}
    links = {}
    for config, tier in zip(configs, tiers, strict=True):
        tier.below = by_name[config.on_evict] if config.on_evict else None
        links[tier] = Link(
            tuple(by_name[name] for name in config.write_through),
            config.demote_wait,
            config.free_target if config.on_evict else 0.0,
            config.promotion_limit,
        )
    return links


def most_blocks(source: Tier, target: Tier) -> int:
    """Return how many blocks go in one step: a bounded part of either tier."""
    part = min(source.table.capacity, target.table.capacity) // _STEP_PART
    in_memory = source.keeping is None and target.keeping is None
    step_bytes = _STEP_BYTES if in_memory else _SHELF_STEP_BYTES
    return max(1, min(_STEP_BLOCKS, step_bytes // max(source.slot_bytes, 1), part))


def batch_blocks(source: Tier, slots: Sequence[int]) -> int:
    """Return how many of these blocks one batch of events can tell, with their token ids."""
    table = source.table
    if not table.token_ids:
        return len(slots)
    spaces = {table.origin[slot].space for slot in slots}
    tokens = (space.namespace.tokens_per_block for space in spaces)
    return max(1, _BATCH_TOKENS // max(tokens, default=1))
