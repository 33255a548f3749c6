"""Whose leases there are, how much they hold, and which of a tier's is the oldest."""

from collections import OrderedDict
from typing import TYPE_CHECKING

from kvtier.server.tiers.tier import Tier
from kvtier.v1.tier_pb2 import LeaseKind
from kvtier.wire.errors import Reason, exhausted

if TYPE_CHECKING:
    from kvtier.server.leases import Lease

_FULL_RETRY = 1.0


class _Account:
    """An owner's pins, or its other leases, and the bytes that they hold."""

    def __init__(self) -> None:
        self.leases: dict[bytes, Lease] = {}
        self.bytes = 0


class Accounts:
    """The open leases of a node by owner and by tier. Pins are counted apart from other leases.

    Every method is O(1), but for those that return all of an owner's leases.

    Args:
        per_owner: Pins that one owner may have, and other leases beside them.
        leased_bytes: Bytes of blocks that one owner's leases other than pins may hold.
        pinned_bytes: Bytes of blocks that one owner's pins may hold.

    Attributes:
        pins: Open pins.
    """

    def __init__(self, *, per_owner: int, leased_bytes: int, pinned_bytes: int) -> None:
        self.pins = 0
        self._per_owner = per_owner
        self._most_bytes = {False: leased_bytes, True: pinned_bytes}
        self._accounts: dict[tuple[str, bool], _Account] = {}
        self._oldest: dict[Tier, OrderedDict[bytes, Lease]] = {}

    def room_of(self, owner: str, *, pin: bool) -> int:
        """Return how many bytes a further pin, or another lease, of an owner may hold.

        Raises:
            KvtierError: RESOURCE_EXHAUSTED when the owner may have no further one.
        """
        account = self._accounts.get((owner, pin))
        if account is None:
            return self._most_bytes[pin]
        if len(account.leases) >= self._per_owner:
            what, how = ("pins", "take back") if pin else ("open leases", "complete or release")
            raise exhausted(
                f"owner {owner!r} has {self._per_owner} {what}, which is the limit: {how} some",
                Reason.LEASE_LIMIT,
                retry_after=_FULL_RETRY,
            )
        return self._most_bytes[pin] - account.bytes

    def add(self, lease: "Lease") -> None:
        """Enter a lease that was just opened."""
        pin = lease.kind == LeaseKind.LEASE_KIND_PIN
        account = self._accounts.setdefault((lease.owner, pin), _Account())
        account.leases[lease.id] = lease
        account.bytes += lease.bytes_held
        self.pins += pin
        if lease.slots and not pin:
            self._oldest.setdefault(lease.tier, OrderedDict())[lease.id] = lease

    def remove(self, lease: "Lease") -> None:
        """Take a lease off the books."""
        pin = lease.kind == LeaseKind.LEASE_KIND_PIN
        account = self._accounts[lease.owner, pin]
        del account.leases[lease.id]
        account.bytes -= lease.bytes_held
        if not account.leases:
            del self._accounts[lease.owner, pin]
        self.pins -= pin
        if lease.tier in self._oldest:
            self._oldest[lease.tier].pop(lease.id, None)

    def of_owner(self, owner: str, *, pins_only: bool = False) -> "list[Lease]":
        """Return the open leases of an owner, or its pins only."""
        found = []
        for pin in (True,) if pins_only else (False, True):
            account = self._accounts.get((owner, pin))
            found += list(account.leases.values()) if account is not None else []
        return found

    def oldest(self, tier: Tier) -> "Lease | None":
        """Return the lease on blocks of a tier, other than a pin, that was opened first."""
        return next(iter(self._oldest.get(tier, {}).values()), None)
