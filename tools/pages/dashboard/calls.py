"""What callers ask for, and how they are answered."""

from tools.pages.dashboard.panel import NODE, OF_NODE, OURS, busy, graph, named, of_node, p99, rate

_OF_METHOD = f"{OF_NODE} {{{{grpc_method}}}}"
_FAILED = 'grpc_code=~"DATA_LOSS|DEADLINE_EXCEEDED|INTERNAL|RESOURCE_EXHAUSTED|UNAVAILABLE|UNKNOWN"'

PANELS = (
    graph(
        "Calls",
        "Calls a second that were begun, by method.",
        "reqps",
        (
            busy(rate("grpc_server_started_total", ", grpc_method", OURS)),
            _OF_METHOD,
        ),
    ),
    graph(
        "99th percentile",
        "The time within which 99 of 100 calls are answered, by method; not of streams.",
        "s",
        (
            busy(p99("grpc_server_handling_seconds", ", grpc_method", OURS)),
            _OF_METHOD,
        ),
    ),
    graph(
        "Failed calls",
        "Calls a second that found no room, time or service. INTERNAL and UNKNOWN are bugs.",
        "reqps",
        (
            busy(
                rate("grpc_server_handled_total", ", grpc_method, grpc_code", f"{OURS}, {_FAILED}")
            ),
            "{{node_id}} {{grpc_method}} {{grpc_code}}",
        ),
    ),
    graph(
        "Calls under way",
        "Calls that were begun and have not ended, streams too.",
        "short",
        (
            busy(named(f"sum by (job, instance, grpc_method) (kvtier_rpcs_in_flight{{{NODE}}})")),
            _OF_METHOD,
        ),
    ),
    graph(
        "Payloads in memory",
        "Bytes of payloads that transfers hold, of limits.transfer_bytes in all.",
        "bytes",
        (of_node("kvtier_transfer_buffer_bytes"), "{{node_id}} {{direction}}"),
    ),
    graph(
        "Transfers",
        "Calls that move bytes and are under way.",
        "short",
        (of_node("kvtier_transfers"), OF_NODE),
    ),
    graph(
        "Refused, by limit",
        "Calls a second that were refused because a limit was reached.",
        "reqps",
        (rate("kvtier_limited_calls_total", ", limit"), "{{node_id}} {{limit}}"),
    ),
    graph(
        "Turned away, by reason",
        "Calls a second of callers without an identity, or without the right to what they asked.",
        "reqps",
        (rate("kvtier_auth_failures_total", ", reason"), "{{node_id}} {{reason}}"),
    ),
    graph(
        "Leases and pins",
        "Open leases and pins.",
        "short",
        (of_node("kvtier_leases"), "{{node_id}} leases"),
        (of_node("kvtier_pins"), "{{node_id}} pins"),
    ),
)
