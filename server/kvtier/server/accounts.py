"""Whose leases there are, how much they hold, and which of a tier's is the oldest."""

from collections import Counter, OrderedDict
from typing import TYPE_CHECKING

from kvtier.server.callers import caller
from kvtier.server.tiers.tier import Tier
from kvtier.v1.tier_pb2 import LeaseKind
from kvtier.wire.errors import KvtierError, Reason, over_limit

if TYPE_CHECKING:
    from kvtier.server.leases import Lease

_FULL_RETRY = 1.0


class _Account:
    """An owner's pins, or its other leases, and the bytes that they hold."""

    def __init__(self) -> None:
        self.leases: dict[bytes, Lease] = {}
        self.bytes = 0


class Accounts:
    """The open leases of a node, by owner and by tier. Pins are counted apart from other leases.

    Every method is O(1), but for those that return all of an owner's leases.

    Args:
        most: Pins that all owners may have, and other leases beside them.
        per_caller: Pins of one caller, whatever owners it names, and other leases beside them.
        per_owner: Pins that one owner may have, and other leases beside them.
        leased_bytes: Bytes of blocks that one owner's leases other than pins may hold.
        pinned_bytes: Bytes of blocks that one owner's pins may hold.

    Attributes:
        pins: Open pins.
    """

    def __init__(
        self,
        *,
        most: int,
        per_caller: int,
        per_owner: int,
        leased_bytes: int,
        pinned_bytes: int,
    ) -> None:
        self.pins = 0
        self._others = 0
        self._most = most
        self._per_caller = per_caller
        self._by_caller: Counter[tuple[str, bool]] = Counter()
        self._per_owner = per_owner
        self._most_bytes = {False: leased_bytes, True: pinned_bytes}
        self._accounts: dict[tuple[str, bool], _Account] = {}
        self._oldest: dict[Tier, OrderedDict[bytes, Lease]] = {}

    def room_of(self, owner: str, *, pin: bool) -> int:
        """Return how many bytes a further pin, or another lease, of an owner may hold.

        Raises:
            KvtierError: RESOURCE_EXHAUSTED when the owner, or anybody, may have no further one.
        """
        account = self._accounts.get((owner, pin))
        if account is not None and len(account.leases) >= self._per_owner:
            raise _too_many(f"owner {owner!r} has", self._per_owner, "leases_per_owner", pin=pin)
        who = caller.get()
        if who and self._by_caller[who, pin] >= self._per_caller:
            raise _too_many(f"caller {who} has", self._per_caller, "leases_per_caller", pin=pin)
        if (self.pins if pin else self._others) >= self._most:
            raise _too_many("all owners have", self._most, "leases", pin=pin)
        return self._most_bytes[pin] - (account.bytes if account is not None else 0)

    def add(self, lease: "Lease") -> None:
        """Enter a lease that was just opened."""
        pin = lease.kind == LeaseKind.LEASE_KIND_PIN
        account = self._accounts.setdefault((lease.owner, pin), _Account())
        account.leases[lease.id] = lease
        account.bytes += lease.bytes_held
        self.pins += pin
        self._others += not pin
        self._by_caller[lease.caller, pin] += 1
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
        self._others -= not pin
        self._by_caller[lease.caller, pin] -= 1
        if not self._by_caller[lease.caller, pin]:
            del self._by_caller[lease.caller, pin]
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


def _too_many(who: str, count: int, limit: str, *, pin: bool) -> KvtierError:
    what, how = ("pins", "take back") if pin else ("open leases", "complete or release")
    return over_limit(
        limit,
        f"{who} {count} {what}, which is the limit: {how} some, or raise limits.{limit}",
        Reason.LEASE_LIMIT,
        retry_after=_FULL_RETRY,
    )
