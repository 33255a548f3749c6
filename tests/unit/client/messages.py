"""Messages of a node's stream, built as a node would send them."""

from collections.abc import Iterable

from kvtier.v1.block_pb2 import BlockRun, BlockSet, Locality, Medium, RemovalReason
from kvtier.v1.event_service_pb2 import (
    BlockRemoved,
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
    TierState,
    WatchEventsResponse,
)
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.namespaces import fingerprint

WIDTH = 8
NAMESPACE = Namespace(
    name="test",
    model="model",
    dtype="bfloat16",
    layout="NHD",
    tokens_per_block=16,
    block_bytes=[64, 128],
    tp_size=1,
    pp_size=1,
    hash_algorithm="sha256_cbor",
    hash_width=WIDTH,
)
FINGERPRINT = fingerprint(NAMESPACE)
OTHER = Namespace()
OTHER.CopyFrom(NAMESPACE)
OTHER.name = "other"
OTHER_FINGERPRINT = fingerprint(OTHER)
LARGE = Namespace()
LARGE.CopyFrom(NAMESPACE)
LARGE.name = "large"
LARGE.block_bytes[:] = [700_000]
LARGE_FINGERPRINT = fingerprint(LARGE)


def hash_of(number: int) -> bytes:
    return number.to_bytes(WIDTH, "big")


def pack(numbers: Iterable[int]) -> bytes:
    return b"".join(map(hash_of, numbers))


def block_set(*numbers: int, group: int = 0) -> BlockSet:
    return BlockSet(group=group, block_hashes=pack(numbers))


def block_run(*numbers: int, group: int = 0) -> BlockRun:
    return BlockRun(group=group, block_hashes=pack(numbers))


def stored(
    *numbers: int,
    tier: str = "cpu0",
    namespace: bytes = FINGERPRINT,
    group: int = 0,
    scope: bytes = b"",
    medium: Medium.ValueType = Medium.MEDIUM_CPU,
) -> BlockStored:
    return BlockStored(
        tier=tier,
        medium=medium,
        namespace=namespace,
        group=group,
        scope=scope,
        start_positions=[0],
        block_hashes=pack(numbers),
    )


def removed(
    *numbers: int,
    tier: str = "cpu0",
    namespace: bytes = FINGERPRINT,
    group: int = 0,
    scope: bytes = b"",
) -> BlockRemoved:
    return BlockRemoved(
        tier=tier,
        medium=Medium.MEDIUM_CPU,
        namespace=namespace,
        group=group,
        scope=scope,
        reason=RemovalReason.REMOVAL_REASON_EVICTED,
        block_hashes=pack(numbers),
    )


def cleared(tier: str = "cpu0", namespace: bytes = b"") -> TierCleared:
    return TierCleared(tier=tier, medium=Medium.MEDIUM_CPU, namespace=namespace)


class Script:
    """Writes one node's stream: every message follows on the one before it."""

    def __init__(self, node_id: str = "node", epoch: int = 7, through: int = 0) -> None:
        self.node_id = node_id
        self.epoch = epoch
        self.through = through

    def _message(self, after: int, **kind: object) -> WatchEventsResponse:
        return WatchEventsResponse(
            node_id=self.node_id,
            epoch=self.epoch,
            after=after,
            through=self.through,
            **kind,  # type: ignore[arg-type]
        )

    def reset(
        self, reason: ResetReason.ValueType = ResetReason.RESET_REASON_NO_POSITION
    ) -> WatchEventsResponse:
        return self._message(self.through, reset=Reset(reason=reason))

    def namespace(self, description: Namespace = NAMESPACE) -> WatchEventsResponse:
        return self._message(self.through, namespace=description)

    def tier(
        self,
        name: str = "cpu0",
        state: TierState.ValueType = TierState.TIER_STATE_READY,
        medium: Medium.ValueType = Medium.MEDIUM_UNSPECIFIED,
        locality: Locality.ValueType = Locality.LOCALITY_UNSPECIFIED,
    ) -> WatchEventsResponse:
        said = State(tier=name, tier_state=state, medium=medium, locality=locality)
        return self._message(self.through, state=said)

    def page(self, *parts: BlockStored) -> WatchEventsResponse:
        return self._message(self.through, snapshot=SnapshotPage(stored=parts))

    def synced(self, blocks: int) -> WatchEventsResponse:
        return self._message(self.through, synced=Synced(blocks=blocks))

    def batch(self, *parts: BlockStored | BlockRemoved | TierCleared) -> WatchEventsResponse:
        """Return a message of one batch."""
        self.through += 1
        batch = EventBatch(
            sequence=self.through,
            cleared=[part for part in parts if isinstance(part, TierCleared)],
            removed=[part for part in parts if isinstance(part, BlockRemoved)],
            stored=[part for part in parts if isinstance(part, BlockStored)],
        )
        return self._message(self.through - 1, batches=EventBatches(batches=[batch]))

    def progress(self, skipped: int = 0) -> WatchEventsResponse:
        """Return a progress that accounts for batches which a filter dropped."""
        self.through += skipped
        return self._message(self.through - skipped, progress=Progress(head=self.through))

    def start(self, *parts: BlockStored) -> list[WatchEventsResponse]:
        """Return a whole snapshot of these blocks."""
        blocks = sum(len(part.block_hashes) // WIDTH for part in parts)
        return [self.reset(), self.namespace(), self.page(*parts), self.synced(blocks)]
