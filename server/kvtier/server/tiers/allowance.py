"""What one owner may hold of a tier."""

from typing import Literal

from kvtier.wire.errors import Reason, over_limit
from kvtier.wire.sizes import format_size

_RETRY = 0.1


def check_allowance(needed: int, allowed: int, held: Literal["leased", "pinned"]) -> None:
    """Refuse to hold more bytes than an owner may have leased, or pinned.

    Raises:
        KvtierError: RESOURCE_EXHAUSTED, with both numbers and the setting to raise.
    """
    if needed > allowed:
        raise over_limit(
            f"{held}_bytes_per_owner",
            f"{format_size(needed)} would be {held}, and this owner may have "
            f"{format_size(max(0, allowed))} more {held}: end some of its leases or pins, or raise "
            f"limits.{held}_bytes_per_owner",
            Reason.LEASE_LIMIT,
            retry_after=_RETRY,
        )
