"""One picture of nodes and tiers, as lines."""

from collections.abc import Callable, Sequence

from kvtier.cli.options import Settings
from kvtier.cli.output import Column, Record, shown_columns
from kvtier.cli.output.table import table_lines
from kvtier.cli.output.times import age
from kvtier.cli.reaching import STATE_TONE as NODE_TONE
from kvtier.cli.tiers import STATE_TONE as TIER_TONE
from kvtier.cli.tiers import is_told, state_text, use_of

_BAR = 10


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _rate(name: str) -> Callable[[Record], str]:
    return lambda record: _number(record[f"{name}_per_s"])


def _blocks(name: str) -> Callable[[Record], str]:
    return lambda record: _number(record[f"{name}_blocks"]) if is_told(record) else ""


def bar(use: float | None) -> str:
    """Return how full something is, such as "[####......]  43%"; empty for None."""
    if use is None:
        return ""
    filled = min(round(use * _BAR), _BAR)
    return f"[{'#' * filled}{'.' * (_BAR - filled)}] {use:4.0%}"


_NODES = (
    Column("NODE", lambda r: r["node_id"]),
    Column("ENDPOINT", lambda r: r["endpoint"]),
    Column("STATE", lambda r: r["state"], tone=NODE_TONE),
    Column("UP", lambda r: age(r["start_time"]), right=True),
    Column("FOLLOWERS", lambda r: _number(r["followers"]), right=True),
    Column("LEASES", lambda r: _number(r["leases"]), right=True),
    Column("HEAD", lambda r: str(r["head"]["sequence"]) if r["head"] else "", right=True),
    Column("BATCHES/S", _rate("batches"), right=True),
)
_TIERS = (
    Column("NODE", lambda r: r["node_id"]),
    Column("TIER", lambda r: r["name"]),
    Column("STATE", lambda r: state_text(r["state"], r["state_reason"]), tone=TIER_TONE),
    Column("USE", lambda r: bar(use_of(r))),
    Column("BLOCKS", _blocks("ready"), right=True),
    Column("LEASED", _blocks("leased"), right=True),
    Column("PINNED", _blocks("pinned"), right=True, wide=True),
    Column("STORE/S", _rate("stored"), right=True),
    Column("LOAD/S", _rate("loaded"), right=True),
    Column("REMOVE/S", _rate("removed"), right=True),
    Column("EVICT/S", _rate("evicted"), right=True),
    Column("DEMOTE/S", _rate("demoted"), right=True, wide=True),
    Column("PROMOTE/S", _rate("promoted"), right=True, wide=True),
)


def frame(settings: Settings, nodes: Sequence[Record], *, colour: bool) -> list[str]:
    """Return the nodes, and below them the tiers."""
    tiers = [{"node_id": node["node_id"], **tier} for node in nodes for tier in node["tiers"]]
    columns, titles = shown_columns(settings, _TIERS), settings.headers
    return [
        *table_lines(_NODES, nodes, titles=titles, colour=colour),
        "",
        *table_lines(columns, tiers, titles=titles, colour=colour),
    ]
