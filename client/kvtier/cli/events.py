"""Event streams as records, one for each thing that happened."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kvtier.cli.described import Described
from kvtier.cli.output import Record
from kvtier.cli.output.messages import to_record
from kvtier.cli.position import position_text
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

    Args:
        resumed: Nodes whose stream is resumed, so that the view is complete from the start.
    """

    def __init__(self, resumed: Iterable[str] = ()) -> None:
        self._described = Described()
        self._complete = set(resumed)

    def read(self, message: WatchEventsResponse) -> Iterator[Sequence[Record]]:
        """Yield what a message tells, in order; nothing for a sign of life.

        Each group of records belongs together: a batch is one, and so is each store of a snapshot.
        Each record has the message's place in the stream and `event`: "reset", "namespace",
        "stored", "removed", "cleared", "synced" or "state". A stored block of a snapshot has
        `sequence` None.

        `position` is from where a follower that read up to the record can resume without missing
        anything. Within a batch that is the place before it, so that the batch comes again whole;
        while the view is not complete there is none.

        Raises:
            CommandError: When the stream breaks its grammar, so that hashes cannot be read.
        """
        node_id, kind = message.node_id, message.WhichOneof("kind")
        place = {
            "node_id": node_id,
            "epoch": f"{message.epoch:016x}",
            "through": message.through,
            "position": self._position(message),
        }
        match kind:
            case "namespace":
                description = message.namespace
                self._described.note(node_id, description)
                yield [place | {"event": "namespace", "namespace": to_record(description)}]
            case "snapshot":
                for stored in message.snapshot.stored:
                    held = {"event": "stored", "sequence": None} | self._stored(node_id, stored)
                    yield [place | held]
            case "batches":
                for batch in message.batches.batches:
                    yield self._batch(place, batch, message.epoch)
            case "reset" | "synced" | "state":
                yield [place | {"event": kind} | to_record(getattr(message, kind))]

    def _position(self, message: WatchEventsResponse) -> str | None:
        match message.WhichOneof("kind"):
            case "reset":
                self._complete.discard(message.node_id)
            case "synced":
                self._complete.add(message.node_id)
        if message.node_id not in self._complete:
            return None
        return position_text(message.epoch, message.through)

    def _batch(self, place: Record, batch: EventBatch, epoch: int) -> list[Record]:
        events = [{**place, **event} for event in self._events(place["node_id"], batch)]
        if events and place["position"] is not None:
            before, after = batch.sequence - 1, batch.sequence
            for event in events:
                event["position"] = position_text(epoch, before)
            events[-1]["position"] = position_text(epoch, after)
        return list(events)

    def _events(self, node_id: str, batch: EventBatch) -> Iterator[dict[str, Any]]:
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
