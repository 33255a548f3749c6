"""What a panel is, and how its queries are put together."""

from typing import NamedTuple

NODE = 'instance=~"$node"'
TIER = f'{NODE}, tier=~"$tier"'
OURS = f'{NODE}, grpc_service=~"kvtier[.].*"'
OF_NODE = "{{node_id}}"
OF_TIER = "{{node_id}} {{tier}}"

Query = tuple[str, str]
"""An expression, and the names of its lines."""


class Panel(NamedTuple):
    """A panel: what it shows, in which unit, and how."""

    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    width: int = 8


def graph(title: str, description: str, unit: str, *queries: Query) -> Panel:
    """Return a panel with lines over time."""
    return Panel(title, description, unit, queries)


def number(title: str, description: str, unit: str, expression: str) -> Panel:
    """Return a small panel with one number."""
    return Panel(title, description, unit, ((expression, ""),), "stat", 4)


def named(expression: str) -> str:
    """Add the node's id to what has an instance."""
    return f"{expression} * on (job, instance) group_left (node_id) kvtier_node_info"


def of_node(metric: str) -> str:
    """Return a metric of a node or proxy."""
    return named(f"{metric}{{{NODE}}}")


def of_tier(metric: str, more: str = "") -> str:
    """Return a metric of a tier; more matchers each after a comma."""
    return named(f"{metric}{{{TIER}{more}}}")


def rate(metric: str, by: str = "", where: str = NODE) -> str:
    """Return the rate of a counter by instance, and by more labels, each after a comma."""
    return named(f"sum by (job, instance{by}) (rate({metric}{{{where}}}[$__rate_interval]))")


def tier_rate(metric: str, by: str = "") -> str:
    """Return the rate of a counter by tier, and by more labels."""
    return rate(metric, f", tier{by}", TIER)


def busy(expression: str) -> str:
    """Leave out what is 0 or nothing, where there are many lines and few that tell something."""
    return f"{expression} > 0"


def p99(histogram: str, by: str = "", where: str = NODE) -> str:
    """Return the 99th percentile of a histogram by instance, and by more labels."""
    buckets = f"rate({histogram}_bucket{{{where}}}[$__rate_interval])"
    return named(f"histogram_quantile(0.99, sum by (job, instance, le{by}) ({buckets}))")
