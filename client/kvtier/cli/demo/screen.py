"""What a demo shows, as lines of text."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kvtier.cli.demo.plan import CPU, GPU, REMOTE, Plan
from kvtier.cli.follow import TierKey
from kvtier.cli.output import Column, Record
from kvtier.cli.output.messages import word
from kvtier.cli.output.table import table_lines
from kvtier.v1.tier_pb2 import Tier
from kvtier.wire.sizes import format_size

_INDENT = "  "
_DEVICES = {"emulated": "emulated (no GPU here)", "shared-memory": "shared memory"}


class Check(NamedTuple):
    """One part of the verdict."""

    name: str
    holds: bool
    text: str


class Progress(NamedTuple):
    """How far a replay has come, and what the events have told so far.

    The first one is told as such.
    """

    first: bool
    requests: int
    hit_share: float
    stored: int
    removed: int
    use: dict[TierKey, float]


def opening(plan: Plan, nodes: Iterable[tuple[str, str, Sequence[Tier]]], source: str) -> list[str]:
    """Return who takes part; a node is its id, its endpoint and its tiers."""
    rows = [
        {"node": node_id, "endpoint": endpoint, "tier": tier}
        for node_id, endpoint, tiers in nodes
        for tier in tiers
    ]
    columns = (
        Column("NODE", lambda r: r["node"]),
        Column("ENDPOINT", lambda r: r["endpoint"]),
        Column("TIER", lambda r: r["tier"].name),
        Column("BLOCKS", lambda r: f"{r['tier'].capacity_blocks:,}", right=True),
        Column("SIZE", lambda r: format_size(r["tier"].capacity_bytes), right=True),
        Column("HELD IN", lambda r: _DEVICES.get(r["tier"].device, r["tier"].device)),
    )
    what = f"{source}: {len(plan.requests):,} requests for {plan.blocks:,} blocks"
    return [
        "A primary node, a remote secondary, and a proxy that merges their events.",
        "",
        *_indented(table_lines(columns, rows)),
        "",
        f"Replaying {what} of {format_size(plan.block_bytes)}",
        "",
    ]


def _use_of(key: TierKey) -> Column:
    title = f"{key.node_id} {key.tier}".upper()
    return Column(title, lambda record: f"{record['use'][key]:.0%} full", right=True)


_PROGRESS = (
    Column("REQUESTS", lambda r: f"{r['requests']:,}", right=True),
    Column("HITS", lambda r: f"{r['hit_share']:.0%}", right=True, width=4),
    Column("STORED", lambda r: f"{r['stored']:,}", right=True, width=8),
    Column("REMOVED", lambda r: f"{r['removed']:,}", right=True, width=8),
    *(_use_of(key) for key in (GPU, CPU, REMOTE)),
)


def progress(step: Progress) -> list[str]:
    """Return one row of the replay's progress, the first below the titles."""
    return _indented(table_lines(_PROGRESS, [step._asdict()], titles=step.first))


_EVENTS = (
    Column("ROUND", lambda r: f"{r['round']:,}", right=True),
    Column("NODE", lambda r: r["node_id"]),
    Column("TIER", lambda r: r["tier"]),
    Column("SEQUENCE", lambda r: str(r["sequence"]), right=True),
    Column("EVENT", lambda r: r["event"]),
    Column("BLOCKS", lambda r: str(len(r["block_hashes"])), right=True),
    Column("WHY", lambda r: word(r.get("reason", ""), "REMOVAL_REASON_")),
    Column("FIRST BLOCK", lambda r: r["block_hashes"][0][:12]),
)


def stretch(rounds: Sequence[tuple[int, Sequence[Record]]]) -> list[str]:
    """Return a few rounds of the merged stream, by number."""
    if not rounds:
        return ["", "No round of the merged stream had stores and removals of both nodes."]
    rows = [{"round": number, **event} for number, events in rounds for event in events]
    return [
        "",
        "A stretch of the merged events: the primary first in a round, room made before it is used",
        "",
        *_indented(table_lines(_EVENTS, rows)),
    ]


_TIERS = (
    Column("NODE", lambda r: r["node_id"]),
    Column("TIER", lambda r: r["tier"]),
    Column("HITS", lambda r: f"{r['hits']:,}", right=True),
    Column("STORED", lambda r: f"{r['stored']:,}", right=True),
    Column("REMOVED", lambda r: f"{r['removed']:,}", right=True),
    Column("HOLDS", lambda r: f"{r['resident']:,}", right=True),
    Column("OF", lambda r: f"{r['capacity_blocks']:,}", right=True),
)


def totals(tiers: Sequence[dict[str, Any]]) -> list[str]:
    """Return the table of hits, stores and removals."""
    return [
        "",
        "Blocks by tier: hits from the loads, the rest from the events",
        "",
        *_indented(table_lines(_TIERS, tiers)),
    ]


def verdict(checks: Iterable[Check], elapsed: float) -> list[str]:
    """Return what holds and what does not."""
    marks = [f"{'ok  ' if check.holds else 'FAIL'}  {check.text}" for check in checks]
    return ["", *_indented(marks), "", f"Took {elapsed:.1f} s."]


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"{_INDENT}{line}" for line in lines]
