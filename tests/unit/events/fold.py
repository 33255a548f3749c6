"""A follower's view, folded from the messages of a stream, which are held to the grammar."""

from collections.abc import Iterator

from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import (
    BlockStored,
    EventBatch,
    NodePosition,
    ResetReason,
    WatchEventsResponse,
)
from kvtier.wire.hashes import split_hashes

from .fakes import HASH_BYTES, Block


class Fold:
    """Applies messages one by one; a message that breaks a rule fails the test.

    Attributes:
        view: Every block that was told of, as (tier name, block).
        synced: Whether the view is complete.
        through: The position accounted for.
        reasons: The reason of every reset so far.
    """

    def __init__(self, *, filtered: bool = False) -> None:
        self.view: set[tuple[str, Block]] = set()
        self.synced = False
        self.through = 0
        self.reasons: list[str] = []
        self._filtered = filtered
        self._epoch = 0
        self._first = True
        self._known: set[bytes] = set()

    def positions(self) -> list[NodePosition]:
        """Return what a request to resume here would send: nothing before the view is complete."""
        if not self.synced:
            return []
        position = Position(epoch=self._epoch, sequence=self.through)
        return [NodePosition(node_id="node-a", position=position)]

    def connect(self) -> None:
        """Expect the first message of a new stream."""
        self._first = True
        self._known = set()

    def apply(self, message: WatchEventsResponse) -> None:
        kind = message.WhichOneof("kind")
        assert message.node_id == "node-a"
        if self._first:
            assert kind == "reset" or message.after == self.through, "the first message fits"
            assert kind in {"reset", "state", "namespace", "synced"}
        else:
            assert message.after == self.through, "nothing is skipped between two messages"
        assert message.through >= message.after
        assert message.epoch == self._epoch or kind == "reset"
        self._first = False
        getattr(self, f"_{kind}")(message)
        self.through = message.through

    def _reset(self, message: WatchEventsResponse) -> None:
        self._epoch = message.epoch
        self.view, self.synced, self._known = set(), False, set()
        self.reasons.append(ResetReason.Name(message.reset.reason).removeprefix("RESET_REASON_"))

    def _snapshot(self, message: WatchEventsResponse) -> None:
        assert not self.synced, "pages come before synced"
        for stored in message.snapshot.stored:
            self.view.update(self._blocks(stored))

    def _synced(self, message: WatchEventsResponse) -> None:
        assert message.synced.blocks == len(self.view)
        self.synced = True

    def _batches(self, message: WatchEventsResponse) -> None:
        sequences = [batch.sequence for batch in message.batches.batches]
        span = range(message.after + 1, message.through + 1)
        assert sequences == sorted(set(sequences))
        assert set(sequences) <= set(span)
        if not self._filtered:
            assert sequences == list(span), "no batch is left out"
        for batch in message.batches.batches:
            self._batch(batch)

    def _batch(self, batch: EventBatch) -> None:
        for cleared in batch.cleared:
            self.view = {
                (tier, b)
                for tier, b in self.view
                if tier != cleared.tier or b.namespace != (cleared.namespace or b.namespace)
            }
        for removed in batch.removed:
            assert removed.namespace in self._known, "a namespace is described before it is used"
            for block_hash in split_hashes(removed.block_hashes, HASH_BYTES):
                key = (removed.tier, removed.namespace, removed.group, removed.scope, block_hash)
                gone = {(tier, b) for tier, b in self.view if (tier, *b[:4]) == key}
                assert gone or not self.synced, "only what is there is removed"
                self.view -= gone
        for stored in batch.stored:
            new = set(self._blocks(stored))
            assert not (new & self.view and self.synced), "only what is absent is stored"
            self.view |= new

    def _progress(self, message: WatchEventsResponse) -> None:
        assert self.synced
        assert message.progress.head >= message.through

    def _state(self, message: WatchEventsResponse) -> None:
        assert message.after == message.through

    def _namespace(self, message: WatchEventsResponse) -> None:
        assert message.after == message.through
        self._known.add(message.namespace.hash_seed)

    def _blocks(self, stored: BlockStored) -> Iterator[tuple[str, Block]]:
        assert stored.namespace in self._known, "a namespace is described before it is used"
        hashes = split_hashes(stored.block_hashes, HASH_BYTES)
        parents = iter(split_hashes(stored.parent_block_hashes, HASH_BYTES))
        assert list(stored.run_lengths) == [1] * len(hashes)
        tokens = len(stored.token_ids) // len(hashes)
        for i, (block_hash, start) in enumerate(zip(hashes, stored.start_positions, strict=True)):
            yield (
                stored.tier,
                Block(
                    stored.namespace,
                    stored.group,
                    stored.scope,
                    block_hash,
                    start,
                    next(parents) if start else b"",
                    tuple(stored.token_ids[i * tokens : (i + 1) * tokens]),
                ),
            )
