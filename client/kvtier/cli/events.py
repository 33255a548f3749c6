"""Event streams as records, one for each thing that happened."""

from collections.abc import Iterator
from typing import Any

from kvtier.cli.described import Described
from kvtier.cli.output import Record
from kvtier.cli.output.messages import to_record
from kvtier.v1.event_service_pb2 import (
    BlockRemoved,
    BlockStored,
    EventBatch,
    TierCleared,
    WatchEventsResponse,
)

BLOCK_EVENTS = frozenset({"stored", "removed", "cleared"})


class EventReader:
    """Turns the messages of one or more streams into records.

    Hashes travel packed; the reader parts them by the width that the stream's own namespace
    messages tell.
    """

    def __init__(self) -> None:
        self._described = Described()

    def read(self, message: WatchEventsResponse) -> Iterator[Record]:
        """Yield what a message tells, in order; nothing for a sign of life.

        Each record has the message's place in the stream and `event`: "reset", "namespace",
        "stored", "removed", "cleared", "synced" or "state". A stored block of a snapshot has
        `sequence` None.

        Raises:
            CommandError: When the stream breaks its grammar, so that hashes cannot be read.
        """
        node_id = message.node_id
        place = {
            "node_id": node_id,
            "epoch": f"{message.epoch:016x}",
            "through": message.through,
        }
        match message.WhichOneof("kind"):
            case "namespace":
                description = message.namespace
                self._described.note(node_id, description)
                yield place | {"event": "namespace", "namespace": to_record(description)}
            case "snapshot":
                for stored in message.snapshot.stored:
                    yield (
                        place
                        | {"event": "stored", "sequence": None}
                        | self._stored(node_id, stored)
                    )
            case "batches":
                for batch in message.batches.batches:
                    for event in self._batch(node_id, batch):
                        yield place | event
            case "reset" | "synced" | "state" as kind:
                yield place | {"event": kind} | to_record(getattr(message, kind))

    def _batch(self, node_id: str, batch: EventBatch) -> Iterator[dict[str, Any]]:
        place = {"sequence": batch.sequence}
        for cleared in batch.cleared:
            yield {"event": "cleared"} | place | self._blocks(node_id, cleared)
        for removed in batch.removed:
            yield {"event": "removed"} | place | self._blocks(node_id, removed)
        for stored in batch.stored:
            yield {"event": "stored"} | place | self._stored(node_id, stored)

    def _stored(self, node_id: str, stored: BlockStored) -> dict[str, Any]:
        parents = self._split(node_id, stored.namespace, stored.parent_block_hashes)
        return self._blocks(node_id, stored) | {"parent_block_hashes": parents}

    def _blocks(
        self, node_id: str, event: TierCleared | BlockRemoved | BlockStored
    ) -> dict[str, Any]:
        name = self._described.name(event.namespace)
        record = to_record(event) | {"namespace_name": name}
        if not isinstance(event, TierCleared):
            record["block_hashes"] = self._split(node_id, event.namespace, event.block_hashes)
        return record

    def _split(self, node_id: str, namespace: bytes, packed: bytes) -> list[str]:
        hashes = self._described.split(node_id, namespace, packed)
        return [block_hash.hex() for block_hash in hashes]
