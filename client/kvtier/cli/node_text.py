"""A node and its tiers as a person reads them."""

from collections.abc import Iterator

from kvtier.cli.output import Record
from kvtier.cli.output.messages import word
from kvtier.cli.output.table import field_lines
from kvtier.cli.output.times import age, at, length
from kvtier.cli.position import position_text
from kvtier.cli.reaching import state_of
from kvtier.cli.tiers import has_room_by_bytes, is_told, state_text
from kvtier.wire.sizes import format_size

_BLOCKS = ("pending", "leased", "pinned", "draining", "quarantined")
_INDENT = "  "


def is_proxy(node: Record) -> bool:
    """Tell whether a node is a proxy, which has no event log of its own."""
    return bool(node["head"] is None)


def node_lines(record: Record) -> Iterator[str]:
    """Yield the lines that tell of a node: itself, its log, its limits, then each tier."""
    yield from field_lines(_identity(record))
    limits = _proxy_limits if is_proxy(record) else _limits
    yield from _section("limits", limits(record["limits"]))
    for tier in record["tiers"]:
        fields = _tier if is_told(tier) else _unreachable_tier
        yield from _section(f"tier {tier['name']}", fields(tier))


def _section(title: str, fields: Iterator[tuple[str, str]]) -> Iterator[str]:
    yield ""
    yield title
    yield from (f"{_INDENT}{line}" for line in field_lines(fields))


def _identity(record: Record) -> Iterator[tuple[str, str]]:
    yield "node", record["node_id"]
    yield "endpoint", record["endpoint"]
    yield "state", state_of(record)
    yield "version", record["version"]
    yield "incarnation", record["incarnation"]
    yield "up", f"{age(record['start_time'])}, since {at(record['start_time'])}"
    yield "log", _log(record)
    yield "followers", f"{record['followers']} of {record['limits']['followers']}"
    if not is_proxy(record):
        yield "leases", f"{record['leases']}, pins too"


def _log(record: Record) -> str:
    if is_proxy(record):
        return "none: a proxy passes on those of its nodes"
    head = record["head"]
    position = position_text(int(head["epoch"], 16), head["sequence"])
    return f"at {position}, can be resumed from {record['oldest_sequence']}"


def _proxy_limits(limits: Record) -> Iterator[tuple[str, str]]:
    yield "request", f"{format_size(limits['message_bytes'])}, {limits['hashes']} hashes"


def _limits(limits: Record) -> Iterator[tuple[str, str]]:
    yield from _proxy_limits(limits)
    yield "offer", f"{limits['offered_blocks']} blocks"
    yield "block", format_size(limits["block_bytes"])
    yield "lease", f"{length(limits['lease_ttl'])}, of a pin {length(limits['pin_ttl'])}"
    leased, pinned = limits["leased_bytes_per_owner"], limits["pinned_bytes_per_owner"]
    yield "leases of an owner", f"{limits['leases_per_owner']}, on {format_size(leased)}"
    yield "pins of an owner", f"{limits['leases_per_owner']}, on {format_size(pinned)}"
    yield "namespaces", str(limits["namespaces"])


def _unreachable_tier(tier: Record) -> Iterator[tuple[str, str]]:
    yield "medium", word(tier["medium"], "MEDIUM_")
    yield "locality", word(tier["locality"], "LOCALITY_")
    yield "state", f"{state_text(tier['state'], '')}: {tier['state_reason']}"


def _tier(tier: Record) -> Iterator[tuple[str, str]]:
    yield "medium", f"{word(tier['medium'], 'MEDIUM_')}, {tier['device']}"
    yield "locality", word(tier["locality"], "LOCALITY_")
    yield "state", state_text(tier["state"], tier["state_reason"])
    yield "policy", f"{tier['policy']}, stores at offer {tier['store_threshold']}"
    yield "evicts to", tier["on_evict"] or "nowhere"
    yield "writes through to", ", ".join(tier["write_through"]) or "nowhere"
    yield "size", f"{format_size(tier['used_bytes'])} of {format_size(tier['capacity_bytes'])}"
    yield "blocks", _blocks(tier)
    if tier["recovering_blocks"]:
        yield "recovered", f"{tier['recovered_blocks']} of {tier['recovering_blocks']} blocks"
    yield "oldest lease", _lease(tier["oldest_lease"])
    yield "since the start", _counted(tier["counters"])


def _blocks(tier: Record) -> str:
    of = "" if has_room_by_bytes(tier) else f" of {tier['capacity_blocks']}"
    others = [f", {tier[f'{n}_blocks']} {n}" for n in _BLOCKS if tier[f"{n}_blocks"]]
    return f"{tier['ready_blocks']}{of} ready{''.join(others)}"


def _counted(counters: Record) -> str:
    counted = [f"{number} {name}" for name, number in counters.items() if number]
    return ", ".join(counted).replace("_", " ") or "nothing"


def _lease(lease: Record | None) -> str:
    if lease is None:
        return "none"
    kind = word(lease["kind"], "LEASE_KIND_")
    held = f"{kind} of {lease['owner']} on {lease['blocks']} blocks"
    return f"{held}, {length(lease['age'])} old, {length(lease['remaining'])} left"
