"""Messages are what the generated classes would have written."""

from typing import Any

from kvtier.server.events.encode import encode_batch, encode_cleared
from kvtier.server.events.messages import Messages
from kvtier.server.events.source import TierInfo
from kvtier.v1.block_pb2 import LOCALITY_LOCAL as LOCAL
from kvtier.v1.event_service_pb2 import (
    BlockStored,
    EventBatch,
    EventBatches,
    Progress,
    Reset,
    ResetReason,
    SnapshotPage,
    State,
    Synced,
    TierCleared,
    WatchEventsResponse,
)
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.framing import bytes_field

from .fakes import CPU, READY, SILENT

_MESSAGES = Messages("node-ä", 2**63 + 5)


def _response(after: int, through: int, **kind: Any) -> WatchEventsResponse:
    return WatchEventsResponse(
        node_id="node-ä", epoch=2**63 + 5, after=after, through=through, **kind
    )


def test_every_kind_parses_with_its_source_and_span() -> None:
    """Node, epoch, after and through are in every message, next to what it brings."""
    stored = BlockStored(tier="cpu0", block_hashes=b"h" * 300)
    cleared = encode_batch(3, [bytes_field(2, encode_cleared("cpu0", 2))])
    namespace = Namespace(name="space", hash_width=32)
    lagged = ResetReason.RESET_REASON_LAGGED

    written = [
        _MESSAGES.reset(0, 300, lagged),
        _MESSAGES.page(300, 300, [stored.SerializeToString()] * 2),
        _MESSAGES.page(300, 301, []),
        _MESSAGES.synced(301, 301, 0),
        _MESSAGES.batches(2, 3, [cleared]),
        _MESSAGES.progress(3, 3, 9),
        _MESSAGES.namespace(3, namespace.SerializeToString()),
    ]

    batch = EventBatch(sequence=3, cleared=[TierCleared(tier="cpu0", medium=CPU)])
    assert [WatchEventsResponse.FromString(message) for message in written] == [
        _response(0, 300, reset=Reset(reason=lagged)),
        _response(300, 300, snapshot=SnapshotPage(stored=[stored, stored])),
        _response(300, 301, snapshot=SnapshotPage()),
        _response(301, 301, synced=Synced()),
        _response(2, 3, batches=EventBatches(batches=[batch])),
        _response(3, 3, progress=Progress(head=9)),
        _response(3, 3, namespace=namespace),
    ]


def test_a_tiers_state_says_why_it_is_so() -> None:
    """The state of a tier names it, and gives the reason where there is one."""
    ready = WatchEventsResponse.FromString(_MESSAGES.tier_state(4, TierInfo(0, "cpu0", CPU, READY)))
    silent = WatchEventsResponse.FromString(
        _MESSAGES.tier_state(4, TierInfo(1, "cpu1", CPU, SILENT, "for a reason"))
    )

    assert ready == _response(
        4, 4, state=State(tier="cpu0", tier_state=READY, medium=CPU, locality=LOCAL)
    )
    assert silent.state == State(
        tier="cpu1", tier_state=SILENT, reason="for a reason", medium=CPU, locality=LOCAL
    )
