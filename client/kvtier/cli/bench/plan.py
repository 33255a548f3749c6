"""What a load does, and whether a node has room for it."""

from collections.abc import Sequence
from typing import NamedTuple

from kvtier.cli.exit import CommandError, ExitCode
from kvtier.v1.block_pb2 import Medium
from kvtier.v1.tier_pb2 import Tier
from kvtier.wire.sizes import format_size

_DEFAULT_BLOCK_BYTES = 64 << 10
_MOST_MEMORY = 1 << 30
# What a file or an object takes beside its block, at most.
_BESIDE_A_BLOCK = 8 << 10
_BY_BYTES = {Medium.MEDIUM_FS, Medium.MEDIUM_OBJ}


class Plan(NamedTuple):
    """A load.

    Attributes:
        tier: Where it stores.
        block_bytes: Bytes of a block.
        blocks: Blocks of a chain.
        chains: Chains that each caller keeps, all of them in one lookup.
        callers: Callers at one time.
        seconds: How long they go on.
    """

    tier: str
    block_bytes: int
    blocks: int
    chains: int
    callers: int
    seconds: float

    @property
    def held(self) -> int:
        """Blocks that the load has in the tier at one time, at most."""
        return self.blocks * self.chains * self.callers

    @property
    def chain_bytes(self) -> int:
        """Bytes of a chain's payloads."""
        return self.blocks * self.block_bytes

    def check(self) -> None:
        """Check that what the callers store and load at one time fits in memory.

        Raises:
            CommandError: When it is much.
        """
        size = 2 * self.chain_bytes * self.callers
        if size > _MOST_MEMORY:
            what = f"the callers would have {format_size(size)} of payloads in memory"
            todo = f"lower --blocks or --callers to come below {format_size(_MOST_MEMORY)}"
            raise CommandError("kvtier", what, todo, code=ExitCode.USAGE)


def choose_tier(endpoint: str, tiers: Sequence[Tier], name: str | None) -> Tier:
    """Return the tier of a name, or the fastest.

    Raises:
        CommandError: When there is none, or it does not store a block that is offered once.
    """
    tier = next((tier for tier in tiers if name in {None, tier.name}), None)
    if tier is None:
        there = ", ".join(tier.name for tier in tiers)
        todo = f"there are {there}" if there else "it has no tiers"
        raise CommandError(endpoint, f"tier {name!r} is unknown", todo, code=ExitCode.NOT_FOUND)
    if tier.store_threshold > 1:
        what = f"tier {tier.name} stores what was offered {tier.store_threshold} times"
        todo = "choose one without a store_threshold with --tier"
        raise CommandError(endpoint, what, todo, code=ExitCode.USAGE)
    return tier


def block_bytes_for(tier: Tier) -> int:
    """Return the block size to take where none is stated: a slot of the tier, if it has any."""
    in_slots = tier.medium not in _BY_BYTES and tier.slot_bytes
    return tier.slot_bytes if in_slots else _DEFAULT_BLOCK_BYTES


def dangers(tiers: Sequence[Tier], plan: Plan) -> list[str]:
    """Return what a load would do to others, in a few words each; none when it is harmless."""
    told = [
        f"tier {tier.name} has no slots yet, and would have slots of "
        f"{format_size(plan.block_bytes)} from then on"
        for tier in tiers
        if tier.medium not in _BY_BYTES
        and not tier.slot_bytes
        and tier.capacity_bytes >= plan.block_bytes
    ]
    for tier in _reached({tier.name: tier for tier in tiers}, plan.tier):
        room = _room(tier, plan.block_bytes)
        if room < plan.held:
            told.append(f"tier {tier.name} has room for {room} of {plan.held} blocks")
    return told


def _reached(tiers: dict[str, Tier], first: str) -> list[Tier]:
    """Return a tier and all those that its blocks may come to."""
    reached, names = [], [first]
    for name in names:
        if name in tiers:
            tier = tiers[name]
            reached.append(tier)
            below = (tier.on_evict, *tier.write_through)
            names += [other for other in below if other and other not in names]
    return reached


def _room(tier: Tier, block_bytes: int) -> int:
    if tier.medium in _BY_BYTES:
        free = tier.capacity_bytes - tier.used_bytes
        return max(free, 0) // (block_bytes + _BESIDE_A_BLOCK)
    if not tier.slot_bytes:
        return tier.capacity_bytes // block_bytes
    taken = tier.ready_blocks + tier.pending_blocks + tier.draining_blocks + tier.quarantined_blocks
    return max(tier.capacity_blocks - taken, 0)
