"""The truth: every batch that a node's log was given, and what the node held after each."""

from collections.abc import Iterable, Mapping, Sequence

from kvtier.v1.event_service_pb2 import EventBatch, EventBatches, WatchEventsResponse
from kvtier.v1.namespace_pb2 import Namespace
from tests.contract.folding import Facts, Fold, Key

from .wanted import Wanted


class Life:
    """One life of one node's log, written down where it is fed.

    Args:
        node_id: The node.
        epoch: The log's epoch.
        ring: The most batches that the log keeps.
        contents: What the node held when the log began.

    Attributes:
        holds: What the node held at each sequence, from 0 on.
        told: What each change was, such as `removed EVICTED`.
        bytes: Encoded size of all batches.
    """

    def __init__(
        self, node_id: str, epoch: int, *, ring: int, contents: Mapping[Key, Facts] | None = None
    ) -> None:
        self.node_id = node_id
        self.epoch = epoch
        self.ring = ring
        self.holds: list[dict[Key, Facts]] = [dict(contents or {})]
        self.bytes = 0
        self._fold = Fold.at_the_start(node_id, epoch)
        self._fold.view.update(self.holds[0])
        self._basic: list[EventBatch] = []
        self._full: list[EventBatch] = []

    @property
    def head(self) -> int:
        """The newest batch's sequence."""
        return len(self._basic)

    @property
    def told(self) -> list[str]:
        return [f"{each.what} {each.reason}".strip() for each in self._fold.told]

    def describe(self, namespaces: Iterable[Namespace]) -> None:
        """Learn how wide the hashes of namespaces are."""
        for namespace in namespaces:
            self._fold.apply(self._message(self.head, namespace=namespace))

    def append(self, basic: EventBatch, full: EventBatch) -> None:
        """Write down the next batch, in both views."""
        batches = EventBatches(batches=[basic])
        self._fold.apply(self._message(self.head + 1, batches=batches))
        self._basic.append(basic)
        self._full.append(full)
        self.bytes += basic.ByteSize()
        self.holds.append(dict(self._fold.view))

    def passing(self, after: int, through: int, wanted: Wanted) -> Sequence[EventBatch]:
        """Return what a follower is to be told of the batches in (after, through]."""
        batches = self._full if wanted.full else self._basic
        chosen = map(wanted.select, batches[after:through])
        return [batch for batch in chosen if batch is not None]

    def _message(self, through: int, **kind: Namespace | EventBatches) -> WatchEventsResponse:
        return WatchEventsResponse(
            node_id=self.node_id,
            epoch=self.epoch,
            after=self.head,
            through=through,
            **kind,  # type: ignore[arg-type]
        )


class Ledger:
    """Every life of every node, in the order in which they began."""

    def __init__(self) -> None:
        self._lives: dict[str, list[Life]] = {}

    def begin(self, life: Life) -> None:
        """Note that a life began."""
        self._lives.setdefault(life.node_id, []).append(life)

    def lives(self) -> list[Life]:
        """Return all lives of all nodes."""
        return [life for lives in self._lives.values() for life in lives]

    def life(self, node_id: str, epoch: int) -> Life:
        """Return a life; a node never had another epoch."""
        found = [life for life in self._lives[node_id] if life.epoch == epoch]
        assert found, f"no log of {node_id} ever had epoch {epoch}"
        return found[0]

    def older(self, node_id: str, epoch: int, than: int) -> bool:
        """Return whether one life of a node ended before another began."""
        epochs = [life.epoch for life in self._lives[node_id]]
        return than in epochs and epochs.index(epoch) < epochs.index(than)
