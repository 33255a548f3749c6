"""The page of every metric, from the families that the servers give."""

from collections.abc import Iterable
from typing import Literal, Protocol

from kvtier.proxy import metrics as proxy
from kvtier.server.metrics import calls, common, lag, node

_HEAD = """# Every metric

This page is made from the code (`make docs`). With `metrics_listen` set to HOST:PORT, such as
`127.0.0.1:9600`, a node or proxy answers `GET /metrics` there in the formats of Prometheus and
OpenMetrics. Whoever reaches the address can read them: there is no TLS and no authentication.
A scrape takes the loop as much time as there are tiers, whatever these hold.

No label comes from what callers send: the values of each are known when the server starts, apart
from the ids of the nodes behind a proxy. So rates begin at 0, and there are no more series tomorrow
than today. Counters begin anew with each start.

Two hit rates are told apart. That of loads is `kvtier_tier_hits_total` over itself and
`kvtier_misses_total`: blocks that `PrepareLoad`, also within `LeaseBlocks`, and `ReadBlocks` named.
That of lookups is `kvtier_lookup_hits_total` over `kvtier_lookup_blocks_total`. A caller that looks
up first loads only what is there, so that for it the second is the hit rate of its requests.

The calls within a `LeaseBlocks` stream are counted as that one call. What gRPC itself refuses, such
as a method that does not exist, is not counted, nor are health checks.

Beside these there are `process_*` (on Linux) and `python_gc_*` of
[prometheus_client](https://prometheus.github.io/client_python/collector/).
"""
_TABLE = "| name | type | labels | meaning |\n|---|---|---|---|\n"


class _Described(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def meaning(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def kind(self) -> Literal["counter", "gauge", "histogram"]: ...


def page() -> str:
    """Return the page."""
    both = (*common.FAMILIES, *lag.FAMILIES, *calls.FAMILIES)
    parts = [
        _HEAD,
        _section("A node and a proxy", both),
        _section("A node", node.FAMILIES),
        _section("A proxy", proxy.FAMILIES),
    ]
    return "\n".join(parts)


def _section(title: str, families: Iterable[_Described]) -> str:
    return f"## {title}\n\n{_TABLE}{''.join(map(_row, families))}"


def _row(family: _Described) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {family.kind} | {labels} | {family.meaning} |\n"
