"""How followers keep up."""

from tools.pages.dashboard.panel import NODE, OF_NODE, graph, named, of_node, rate

PANELS = (
    graph(
        "Followers",
        "Streams of events that are open.",
        "short",
        (of_node("kvtier_followers"), OF_NODE),
    ),
    graph(
        "Lag",
        "Batches by which the follower that is furthest behind is behind.",
        "short",
        (of_node("kvtier_follower_lag_batches"), OF_NODE),
    ),
    graph(
        "Resets, by reason",
        "Followers a second that start over: new ones (no_position), slow ones (lagged), others.",
        "ops",
        (rate("kvtier_resets_total", ", reason"), "{{node_id}} {{reason}}"),
    ),
    graph(
        "Batches",
        "Batches a second that nodes tell.",
        "ops",
        (named(f"rate(kvtier_log_head_sequence{{{NODE}}}[$__rate_interval])"), OF_NODE),
    ),
    graph(
        "Log",
        "Bytes of batches that the log keeps for followers that lag or resume.",
        "bytes",
        (of_node("kvtier_log_bytes"), OF_NODE),
    ),
    graph(
        "Snapshots",
        "Snapshots under way, and those a second that were begun.",
        "short",
        (of_node("kvtier_snapshots_in_progress"), "{{node_id}} under way"),
        (rate("kvtier_snapshots_total"), "{{node_id}} a second"),
    ),
)
