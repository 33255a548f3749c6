"""Event streams as records, one for each thing that happened."""

from collections.abc import Iterator
from typing import Any

from kvtier.cli.output import Record
from kvtier.cli.output.messages import to_record
from kvtier.v1.event_service_pb2 import (
    BlockRemoved,
    BlockStored,
    EventBatch,
    TierCleared,
    WatchEventsResponse,
)
from kvtier.wire.hashes import split_hashes
from kvtier.wire.namespaces import fingerprint

BLOCK_EVENTS = frozenset({"stored", "removed", "cleared"})


class EventReader:
    """Turns the messages of one or more streams into records.

    Hashes travel packed; the reader parts them by the width that the stream's own namespace
    messages tell.
    """

    def __init__(self) -> None:
        self._namespaces: dict[bytes, tuple[str, int]] = {}

    def read(self, message: WatchEventsResponse) -> Iterator[Record]:
        """Yield what a message tells, in order; nothing for a sign of life.

        Each record has the message's place in the stream and `event`: "reset", "namespace",
        "stored", "removed", "cleared", "synced" or "state". A stored block of a snapshot has
        `sequence` None.
        """
        place = {
            "node_id": message.node_id,
            "epoch": f"{message.epoch:016x}",
            "through": message.through,
        }
        match message.WhichOneof("kind"):
            case "namespace":
                description = message.namespace
                known = description.name, description.hash_width
                self._namespaces[fingerprint(description)] = known
                yield place | {"event": "namespace", "namespace": to_record(description)}
            case "snapshot":
                for stored in message.snapshot.stored:
                    yield place | {"event": "stored", "sequence": None} | self._stored(stored)
            case "batches":
                for batch in message.batches.batches:
                    for event in self._batch(batch):
                        yield place | event
            case "reset" | "synced" | "state" as kind:
                yield place | {"event": kind} | to_record(getattr(message, kind))

    def _batch(self, batch: EventBatch) -> Iterator[dict[str, Any]]:
        place = {"sequence": batch.sequence}
        for cleared in batch.cleared:
            yield {"event": "cleared"} | place | self._blocks(cleared)
        for removed in batch.removed:
            yield {"event": "removed"} | place | self._blocks(removed)
        for stored in batch.stored:
            yield {"event": "stored"} | place | self._stored(stored)

    def _stored(self, stored: BlockStored) -> dict[str, Any]:
        parents = self._split(stored.namespace, stored.parent_block_hashes)
        return self._blocks(stored) | {"parent_block_hashes": parents}

    def _blocks(self, event: TierCleared | BlockRemoved | BlockStored) -> dict[str, Any]:
        name, _ = self._namespaces.get(event.namespace, ("", 0))
        record = to_record(event) | {"namespace_name": name}
        if not isinstance(event, TierCleared):
            record["block_hashes"] = self._split(event.namespace, event.block_hashes)
        return record

    def _split(self, namespace: bytes, packed: bytes) -> list[str]:
        _, width = self._namespaces[namespace]
        return [block_hash.hex() for block_hash in split_hashes(packed, width)]
