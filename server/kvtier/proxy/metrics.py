"""What there is to tell of the nodes behind a proxy."""

from collections import Counter
from collections.abc import Iterable, Iterator

from kvtier.proxy.behind import Member
from kvtier.proxy.relays import Relays
from kvtier.server.metrics.families import Family, Read, word
from kvtier.v1.event_service_pb2 import SourceState

_SOURCES = Family(
    "kvtier_proxy_sources",
    "Nodes behind the proxy, and addresses behind which none was heard of yet, by state.",
    ("state",),
)
_UP = Family("kvtier_proxy_source_up", "Whether the node is in touch, 0 or 1.", ("node_id",))
_LAG = Family(
    "kvtier_proxy_source_lag_batches",
    "Batches that the proxy does not have yet of the log of the node, as its last heartbeat told.",
    ("node_id",),
)
_CATCH_UPS = Family(
    "kvtier_proxy_catch_ups_in_progress",
    "Streams of nodes for one follower alone, whose position the proxy does not hold.",
)
FAMILIES = (_SOURCES, _UP, _LAG, _CATCH_UPS)

# A node that is followed no more is none of them.
_STATES = {
    value: word(name, "SOURCE_STATE_")
    for name, value in SourceState.items()
    if value not in {SourceState.SOURCE_STATE_UNSPECIFIED, SourceState.SOURCE_STATE_REMOVED}
}


def collect_proxy(members: Iterable[Member], relays: Relays) -> Iterator[Read]:
    """Read what is known of the nodes behind a proxy."""
    states = Counter(
        member.state(node_id) for member in members for node_id in member.node_ids or [""]
    )
    yield _SOURCES.by({name: states[state] for state, name in _STATES.items()})
    nodes = [each.relay for each in relays.carried()]
    yield _UP.by({node.node_id: node.in_touch for node in nodes})
    yield _LAG.by({node.node_id: node.ring.lag for node in nodes if node.ring is not None})
    yield _CATCH_UPS.alone(relays.told.catch_ups)
