"""Whether all is well."""

from tools.pages.dashboard.panel import NODE, OF_NODE, graph, named, number, of_node

_HITS = f"sum(rate(kvtier_lookup_hits_total{{{NODE}}}[$__rate_interval]))"
_BLOCKS = f"sum(rate(kvtier_lookup_blocks_total{{{NODE}}}[$__rate_interval]))"

PANELS = (
    number(
        "Nodes and proxies",
        "Processes of kvtier that are measured.",
        "short",
        f"count(kvtier_build_info{{{NODE}}})",
    ),
    number(
        "Not ready",
        "Those that do not say that they are ready: starting, recovering or draining.",
        "short",
        f"count(kvtier_ready{{{NODE}}} == 0) or vector(0)",
    ),
    number(
        "Tiers in trouble",
        "Tiers that are read-only or still recovering.",
        "short",
        f'sum(kvtier_tier_state{{{NODE}, state=~"read_only|recovering"}}) or vector(0)',
    ),
    number(
        "Blocks",
        "Readable copies of blocks in all tiers.",
        "short",
        f'sum(kvtier_tier_blocks{{{NODE}, state="ready"}})',
    ),
    number(
        "In use",
        "The part of all tiers' capacity that is in use.",
        "percentunit",
        f"sum(kvtier_tier_used_bytes{{{NODE}}}) / sum(kvtier_tier_capacity_bytes{{{NODE}}})",
    ),
    number(
        "Found by lookups",
        "Of the blocks that lookups asked for, the part in prefixes that some tier had.",
        "percentunit",
        f"{_HITS} / {_BLOCKS}",
    ),
    graph(
        "Ready",
        "1 while a node or proxy says that it is ready.",
        "short",
        (of_node("kvtier_ready"), OF_NODE),
    ),
    graph(
        "Draining",
        "1 from the moment on that a node leaves service.",
        "short",
        (of_node("kvtier_draining"), OF_NODE),
    ),
    graph(
        "Time left on certificates",
        "Until each certificate expires; a jump up is a renewal.",
        "s",
        (
            named(f"(kvtier_certificate_expiry_timestamp_seconds{{{NODE}}} - time())"),
            "{{node_id}} {{file}}",
        ),
    ),
)
