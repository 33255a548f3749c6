"""What a WatchEvents request asks for, checked."""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from kvtier.server.events.filter import EventFilter
from kvtier.server.events.source import EventSource
from kvtier.server.known import check_known
from kvtier.v1.block_pb2 import Medium, Position
from kvtier.v1.event_service_pb2 import EventView, NodePosition, WatchEventsRequest
from kvtier.wire.errors import Reason, invalid, not_found, quote
from kvtier.wire.namespaces import FINGERPRINT_BYTES


class Watch(NamedTuple):
    """A checked request.

    Attributes:
        position: Where to resume; None to start with a snapshot.
        wanted: What to see.
    """

    position: Position | None
    wanted: EventFilter


class Asked(NamedTuple):
    """A request that is well formed.

    Attributes:
        positions: Where to resume, by node.
        wanted: What to see, but for tiers, which a node has names for.
    """

    positions: dict[str, Position]
    wanted: EventFilter


def check_request(request: WatchEventsRequest, source: EventSource) -> Watch:
    """Return what a request asks of a node.

    Positions of other nodes are allowed and ignored, so that a follower of many nodes can send
    all that it has. A namespace may be named before it is registered.

    Raises:
        KvtierError: INVALID_ARGUMENT for anything malformed, NOT_FOUND for an unknown tier.
    """
    asked = check_form(request)
    wanted = replace(asked.wanted, tiers=_check_tiers(request.tiers, source))
    return Watch(asked.positions.get(source.node_id), wanted)


def check_form(request: WatchEventsRequest) -> Asked:
    """Return what a request asks of whatever nodes.

    Raises:
        KvtierError: INVALID_ARGUMENT for anything malformed.
    """
    positions = _check_positions(request.positions)
    views = EventView.values()
    if request.view not in views:
        raise invalid(f"view {request.view} is not known; the views are {views}")
    wanted = EventFilter(
        media=check_known("medium", "media", request.media, Medium),
        namespaces=_check_namespaces(request.namespaces),
        full=request.view == EventView.EVENT_VIEW_FULL,
    )
    return Asked(positions, wanted)


def _check_positions(named: Iterable[NodePosition]) -> dict[str, Position]:
    """Return the positions by node; one that is left out counts as not named."""
    seen: set[str] = set()
    positions: dict[str, Position] = {}
    for each in named:
        if not each.node_id:
            raise invalid("a position names no node; set node_id")
        if each.node_id in seen:
            raise invalid(f"node {quote(each.node_id)} has more than one position; send one")
        seen.add(each.node_id)
        if not each.HasField("position"):
            continue
        if not each.position.epoch:
            raise invalid(
                f"the position of node {quote(each.node_id)} has epoch 0, which no log has; "
                "leave the position out to start with a snapshot"
            )
        positions[each.node_id] = each.position
    return positions


def _check_tiers(names: Iterable[str], source: EventSource) -> frozenset[int]:
    known = {tier.name: tier.index for tier in source.tier_infos()}
    for name in names:
        if name not in known:
            raise not_found(
                f"tier {quote(name)} is not on node {source.node_id}, which has {', '.join(known)}",
                Reason.TIER_UNKNOWN,
            )
    return frozenset(known[name] for name in names)


def _check_namespaces(fingerprints: Iterable[bytes]) -> frozenset[bytes]:
    for fingerprint in fingerprints:
        if len(fingerprint) != FINGERPRINT_BYTES:
            raise invalid(
                f"namespace {quote(fingerprint)} has {len(fingerprint)} bytes; "
                f"a fingerprint has {FINGERPRINT_BYTES}"
            )
    return frozenset(fingerprints)
