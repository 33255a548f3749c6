"""What a proxy follows."""

from tools.pages.dashboard.panel import NODE, OF_NODE, graph, of_node

PANELS = (
    graph(
        "Sources, by state",
        "Nodes behind each proxy, by the state that it tells its followers.",
        "short",
        (f"kvtier_proxy_sources{{{NODE}}}", "{{instance}} {{state}}"),
    ),
    graph(
        "Sources that are up",
        "1 while a proxy follows the node.",
        "short",
        (f"kvtier_proxy_source_up{{{NODE}}}", "{{instance}} {{node_id}}"),
    ),
    graph(
        "Lag of sources",
        "Batches by which a proxy is behind a node.",
        "short",
        (f"kvtier_proxy_source_lag_batches{{{NODE}}}", "{{instance}} {{node_id}}"),
    ),
    graph(
        "Catching up",
        "Followers that a node tells itself, through the proxy, until the proxy can take over.",
        "short",
        (of_node("kvtier_proxy_catch_ups_in_progress"), OF_NODE),
    ),
)
