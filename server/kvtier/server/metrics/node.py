"""What there is to tell of a node beside its tiers."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from kvtier.server.metrics import tiers
from kvtier.server.metrics.families import Family, Read
from kvtier.server.metrics.tiers import collect_tiers
from kvtier.server.node import Node

_MISSES = Family(
    "kvtier_misses_total",
    "Blocks that PrepareLoad and ReadBlocks asked a tier for and did not get, as often as they "
    "were asked for. absent: not there; pending: being written, or could be brought up; "
    "recovering: the tier did not know yet.",
    ("reason",),
)
_BUFFERS = Family(
    "kvtier_transfer_buffer_bytes",
    "Bytes of payloads that transfers have in memory now.",
    ("direction",),
)


class Snapshots(Protocol):
    """What is counted of snapshots."""

    @property
    def begun(self) -> int:
        """How many were begun."""
        ...

    @property
    def under_way(self) -> int:
        """How many are under way."""
        ...


class Followers(Protocol):
    """What is known of a node's followers."""

    @property
    def lag(self) -> int:
        """How many batches the one furthest behind was not sent yet."""
        ...

    @property
    def slots(self) -> Snapshots:
        """What is counted of their snapshots."""
        ...


class _Reading(NamedTuple):
    family: Family
    read: Callable[[Node, Followers], float]


_READINGS = (
    _Reading(Family("kvtier_leases", "Open leases, with pins."), lambda node, _: len(node.leases)),
    _Reading(Family("kvtier_pins", "Open pins."), lambda node, _: node.leases.accounts.pins),
    _Reading(
        Family("kvtier_transfers", "Calls that move bytes now."), lambda node, _: node.transfers
    ),
    _Reading(
        Family(
            "kvtier_lookup_blocks_total",
            "Blocks that LookupBlocks asked for. The hit rate of lookups is "
            "kvtier_lookup_hits_total / this.",
        ),
        lambda node, _: node.demand.looked_up,
    ),
    _Reading(
        Family(
            "kvtier_lookup_hits_total",
            "Those of them that some tier had, with all before them in their chain.",
        ),
        lambda node, _: node.demand.found,
    ),
    _Reading(
        Family("kvtier_log_head_sequence", "Sequence of the newest batch of events."),
        lambda node, _: node.log.head,
    ),
    _Reading(
        Family("kvtier_log_oldest_sequence", "The oldest sequence to go on from."),
        lambda node, _: node.log.oldest,
    ),
    _Reading(
        Family("kvtier_log_bytes", "Bytes of the batches that the log keeps."),
        lambda node, _: node.log.held_bytes,
    ),
    _Reading(
        Family(
            "kvtier_follower_lag_batches",
            "Batches that the follower which is furthest behind was not sent yet.",
        ),
        lambda _, followers: followers.lag,
    ),
    _Reading(
        Family("kvtier_snapshots_total", "Snapshots that were begun for followers."),
        lambda _, followers: followers.slots.begun,
    ),
    _Reading(
        Family("kvtier_snapshots_in_progress", "Snapshots under way now."),
        lambda _, followers: followers.slots.under_way,
    ),
)

FAMILIES = (_MISSES, _BUFFERS, *(reading.family for reading in _READINGS), *tiers.FAMILIES)


def collect_node(node: Node, followers: Followers) -> Iterator[Read]:
    """Read all that there is to tell of a node; neither blocks nor leases add to the time."""
    demand = node.demand
    yield _MISSES.by(
        {"absent": demand.absent, "pending": demand.pending, "recovering": demand.recovering}
    )
    yield _BUFFERS.by({"read": node.read_bytes.used, "write": node.write_bytes.used})
    for family, read in _READINGS:
        yield family.alone(read(node, followers))
    yield from collect_tiers(node)
