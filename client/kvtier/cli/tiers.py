"""What tiers say of themselves, as people say it."""

from collections.abc import Collection, Mapping

from kvtier.cli.output import Record
from kvtier.cli.output.colour import BAD, DOUBTFUL, tones
from kvtier.cli.output.messages import word
from kvtier.client import NodeClient
from kvtier.v1.event_service_pb2 import TierState

# What a proxy says of a tier whose node does not answer: that it is there, and no more.
_UNREACHABLE = "TIER_STATE_UNSPECIFIED"
STATE_TONE = tones(
    {
        "TIER_STATE_RECOVERING": DOUBTFUL,
        "TIER_STATE_READ_ONLY": BAD,
        "TIER_STATE_SILENT": DOUBTFUL,
        _UNREACHABLE: BAD,
    },
    "state",
)


def state_text(state: str | int, reason: str) -> str:
    """Return a tier's state with its reason.

    It is such as "ready", "recovering 62 %" or "read-only: no space left on device". Why a proxy
    does not reach a tier is long, and left to `kvtier describe node`.

    Args:
        state: The state in a record.
        reason: The reason beside it; may be empty.
    """
    if state == _UNREACHABLE:
        return "unreachable"
    name = word(state, "TIER_STATE_").replace(" ", "-")
    if not reason:
        return name
    return f"{name} {reason}" if reason.endswith("%") else f"{name}: {reason}"


def recovering_text(tiers: Mapping[str, str]) -> str:
    """Return which tiers are recovering, given how far each is, in a few words."""
    return ", ".join(f"tier {name} is recovering ({far})" for name, far in tiers.items())


async def recovering_tiers(client: NodeClient, names: Collection[str]) -> dict[str, str]:
    """Return which of a node's tiers are recovering, and how far they are; no names means all."""
    return {
        tier.name: tier.state_reason
        for tier in await client.list_tiers()
        if tier.state == TierState.TIER_STATE_RECOVERING and (not names or tier.name in names)
    }


def recovering_note(endpoint: str, tiers: Mapping[str, str]) -> str:
    """Return why a node's listing may be short; empty when none of the tiers are recovering."""
    if not tiers:
        return ""
    return f"{endpoint}: {recovering_text(tiers)}, and may hold more than is listed"


def is_told(tier: Record) -> bool:
    """Tell whether a tier says what it holds; behind a proxy one that is out of reach does not."""
    return bool(tier["state"] != _UNREACHABLE)


def use_of(tier: Record) -> float | None:
    """Return which part of a tier's room is taken, from 0 to 1; None while it has no room."""
    if has_room_by_bytes(tier):
        used, whole = tier["used_bytes"], tier["capacity_bytes"]
    else:
        used, whole = tier["ready_blocks"], tier["capacity_blocks"]
    return used / whole if whole else None


def has_room_by_bytes(tier: Record) -> bool:
    """Tell whether a tier has room for so many bytes, and not for so many blocks."""
    return tier["medium"] in {"MEDIUM_FS", "MEDIUM_OBJ"}
