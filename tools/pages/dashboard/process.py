"""What the process itself needs."""

from tools.pages.dashboard.panel import NODE, OF_NODE, graph, named, of_node, p99, rate

PANELS = (
    graph(
        "Lag of the event loop",
        "How late one in a hundred turns of the event loop is. Everything but copies waits for it.",
        "s",
        (p99("kvtier_event_loop_lag_seconds"), OF_NODE),
    ),
    graph(
        "CPU",
        "Processors that the process keeps busy.",
        "short",
        (rate("process_cpu_seconds_total"), OF_NODE),
    ),
    graph(
        "Memory",
        "Resident memory of the process, with the tiers that lie in memory.",
        "bytes",
        (of_node("process_resident_memory_bytes"), OF_NODE),
    ),
    graph(
        "File descriptors",
        "The part of the file descriptors that the process may open and has open.",
        "percentunit",
        (named(f"process_open_fds{{{NODE}}} / process_max_fds{{{NODE}}}"), OF_NODE),
    ),
    graph(
        "Collections of garbage",
        "Collections of the oldest objects a second. Each stops the event loop.",
        "ops",
        (
            named(f'rate(python_gc_collections_total{{{NODE}, generation="2"}}[$__rate_interval])'),
            OF_NODE,
        ),
    ),
    graph(
        "Up since",
        "How long the process has been running; a drop to 0 is a restart.",
        "s",
        (named(f"(time() - process_start_time_seconds{{{NODE}}})"), OF_NODE),
    ),
)
