"""Checks every message of one follower of one node against the truth, without I/O."""

from collections import Counter

from kvtier.v1.event_service_pb2 import ResetReason, SourceState, WatchEventsResponse
from tests.contract.folding import Fold

from .ledger import Ledger, Life
from .wanted import Wanted

_BROKEN = {
    SourceState.SOURCE_STATE_CONNECTING,
    SourceState.SOURCE_STATE_SUSPECT,
    SourceState.SOURCE_STATE_DOWN,
}
_EVERYTHING = Wanted()


class Auditor:
    """Takes the messages in their order; one that should not come fails the test.

    What is checked: nothing is missing and nothing comes twice between two messages; a reset says
    why it came, and that is true; the order of reset, pages and synced; batches are those of the
    node's log, byte for byte, and of this life; pages and complete views are what the node held
    at their position.

    Args:
        ledger: The truth.
        wanted: What the follower asked to see.
        drops: Messages may be dropped on the way, as long as a reset follows.

    Attributes:
        fold: The view.
        seen: How often each kind of thing happened.
    """

    def __init__(
        self, ledger: Ledger, wanted: Wanted = _EVERYTHING, *, drops: bool = False
    ) -> None:
        self.fold = Fold(filtered=True)
        self.seen: Counter[str] = Counter()
        self._ledger = ledger
        self._wanted = wanted
        self._drops = drops
        self._in_snapshot = False
        self._broken = True
        self._jumped = False

    def at(self, node_id: str, epoch: int, through: int) -> None:
        """Start with an empty view at a position that somebody made up."""
        self.fold = Fold(filtered=True)
        self.fold.node_id, self.fold.epoch, self.fold.synced = node_id, epoch, True
        self.fold.through = through

    def reopen(self) -> None:
        """Expect another stream: it starts with synced or a reset."""
        self.seen["snapshot broken off"] += self._in_snapshot
        self._broken, self._in_snapshot = True, False

    def take(self, message: WatchEventsResponse) -> None:
        """Check the next message and take it in."""
        kind = message.WhichOneof("kind") or ""
        if kind == "state" and not message.state.tier:
            self._source_state(message)
            return
        life = self._ledger.life(message.node_id, message.epoch)
        assert not self._ledger.older(message.node_id, message.epoch, self.fold.epoch), (
            "a node's earlier life tells nothing any more"
        )
        if self._jumped and kind in {"state", "namespace"}:
            self.fold.reopen()
            self.fold.apply(message)
            return
        getattr(self, f"_before_{kind}")(message, life)
        self.fold.apply(message)
        self.seen[kind] += 1
        if kind == "synced":
            self._after_synced(life)

    def _source_state(self, message: WatchEventsResponse) -> None:
        state = message.state.source
        self.seen[SourceState.Name(state).removeprefix("SOURCE_STATE_")] += 1
        assert message.after == message.through
        place, here = (message.epoch, message.through), (self.fold.epoch, self.fold.through)
        if not message.node_id:
            assert not self.fold.synced, "who resumes a position knows of which node it is"
        elif place != here:
            assert self._drops, f"a state names position {place}; the last message was at {here}"
            self._jump()
        if state in _BROKEN:
            self.reopen()

    def _jump(self) -> None:
        self.seen["jump"] += not self._jumped
        self._jumped, self._in_snapshot = True, False
        self.fold = Fold(filtered=True)

    def _before_reset(self, message: WatchEventsResponse, life: Life) -> None:
        fold = self.fold
        if not self._broken and not self._jumped:
            assert message.after == fold.through, "a reset on the same stream follows on it"
        assert message.after <= message.through <= life.head
        reason = ResetReason.Name(message.reset.reason).removeprefix("RESET_REASON_")
        assert self._is_true(reason, message, life), (
            f"a reset says {reason} at {message.through}, after {fold.epoch} {fold.through}"
        )
        self.seen[f"reset {reason}"] += 1
        self.seen["snapshot outrun"] += self._in_snapshot
        self._broken, self._jumped, self._in_snapshot = False, False, True

    def _is_true(self, reason: str, message: WatchEventsResponse, life: Life) -> bool:
        fold = self.fold
        same_life = fold.epoch == message.epoch
        outrun = same_life and message.through - fold.through > life.ring
        return {
            "NO_POSITION": (self._broken or self._jumped) and not fold.synced,
            "EPOCH_CHANGED": self._broken and fold.synced and not same_life,
            "AHEAD_OF_HEAD": (
                self._broken and fold.synced and same_life and fold.through > message.through
            ),
            "COMPACTED": self._broken and fold.synced and outrun,
            "LAGGED": not self._jumped and outrun and (fold.synced or not self._broken),
        }[reason]

    def _before_snapshot(self, message: WatchEventsResponse, life: Life) -> None:
        assert self._in_snapshot, "pages come between a reset and synced"
        self._tells_all(message, life)
        page = Fold(filtered=True)
        page._namespaces = self.fold._namespaces
        page.apply(message)
        held = self._wanted.part_of(life.holds[message.through])
        assert page.view.items() <= held.items(), "a page is exact at its position"

    def _before_synced(self, message: WatchEventsResponse, life: Life) -> None:
        self._tells_all(message, life)
        if self._in_snapshot:
            self._in_snapshot = False
            return
        assert self._broken, "synced comes at the end of a snapshot, or at a stream's start"
        assert self.fold.synced, "only a complete view is resumed"
        assert message.after == message.through
        self._broken = False
        self.seen["resume"] += 1

    def _after_synced(self, life: Life) -> None:
        held = self._wanted.part_of(life.holds[self.fold.through])
        assert self.fold.view == held, "a view is exact at synced"

    def _before_batches(self, message: WatchEventsResponse, life: Life) -> None:
        self._on_the_way()
        self.seen["batches within a snapshot"] += self._in_snapshot
        told = list(message.batches.batches)
        assert told == life.passing(message.after, message.through, self._wanted), (
            "batches are those of the node's log"
        )

    def _before_progress(self, message: WatchEventsResponse, life: Life) -> None:
        self._on_the_way()
        assert message.progress.head <= life.head
        self._tells_all(message, life)

    def _before_state(self, message: WatchEventsResponse, life: Life) -> None:
        assert self._in_snapshot or self.fold.synced, "a stream starts with a reset, or with synced"
        self._tells_all(message, life)

    _before_namespace = _before_state

    def _on_the_way(self) -> None:
        assert self._in_snapshot or (self.fold.synced and not self._broken), (
            "a stream starts with a reset, or with synced"
        )

    def _tells_all(self, message: WatchEventsResponse, life: Life) -> None:
        assert not life.passing(message.after, message.through, self._wanted), (
            "what passes is told, by a message of batches"
        )
