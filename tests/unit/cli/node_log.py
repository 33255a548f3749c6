"""A node in memory: what it holds, and the messages that tell of it."""

from kvtier.cli.replay import replay_namespace
from kvtier.v1.event_service_pb2 import (
    BlockRemoved,
    BlockStored,
    EventBatch,
    EventBatches,
    Reset,
    SnapshotPage,
    Synced,
    TierCleared,
    WatchEventsResponse,
)
from kvtier.wire.namespaces import fingerprint

NAMESPACE = replay_namespace(64)
FINGERPRINT = fingerprint(NAMESPACE)
TIER = "cpu0"


def block_hash(name: str) -> bytes:
    """The hash of a block that a test calls by a letter."""
    return name.encode() * 32


def stored(names: str, **columns: object) -> BlockStored:
    """An event of blocks, one chain from position 0 unless columns say otherwise."""
    return BlockStored(
        tier=TIER,
        namespace=FINGERPRINT,
        block_hashes=b"".join(map(block_hash, names)),
        **{"start_positions": [0], **columns},  # type: ignore[arg-type]
    )


def removed(names: str) -> BlockRemoved:
    """An event of blocks that went."""
    hashes = b"".join(map(block_hash, names))
    return BlockRemoved(tier=TIER, namespace=FINGERPRINT, block_hashes=hashes)


class NodeLog:
    """Makes the messages of one node's stream."""

    def __init__(self, node_id: str = "n1", epoch: int = 1) -> None:
        self.node_id = node_id
        self.epoch = epoch
        self.sequence = 0

    def message(self, **kind: object) -> WatchEventsResponse:
        return WatchEventsResponse(
            node_id=self.node_id,
            epoch=self.epoch,
            after=self.sequence,
            through=self.sequence,
            **kind,  # type: ignore[arg-type]
        )

    def snapshot(self, held: str = "", blocks: int | None = None) -> list[WatchEventsResponse]:
        """From reset to synced."""
        page = SnapshotPage(stored=[stored(held)] if held else [])
        return [
            self.message(reset=Reset()),
            self.message(namespace=NAMESPACE),
            self.message(snapshot=page),
            self.message(synced=Synced(blocks=len(held) if blocks is None else blocks)),
        ]

    def batch(
        self, *, store: str = "", remove: str = "", clear: TierCleared | None = None
    ) -> WatchEventsResponse:
        """One batch."""
        self.sequence += 1
        batch = EventBatch(
            sequence=self.sequence,
            cleared=[clear] if clear is not None else [],
            removed=[removed(remove)] if remove else [],
            stored=[stored(store)] if store else [],
        )
        message = self.message(batches=EventBatches(batches=[batch]))
        message.after = self.sequence - 1
        return message
