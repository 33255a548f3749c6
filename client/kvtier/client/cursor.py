"""The grammar of an event stream, for one source: what may follow what, and where to resume."""

from enum import Enum, auto

from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import WatchEventsResponse


class _Phase(Enum):
    OPENED = auto()  # nothing of this source came on this stream
    SNAPSHOT = auto()
    LIVE = auto()


class Cursor:
    """Where a follower is in one source's log.

    A message is accepted only when it follows on what was accepted before it: `after` equals the
    last `through`, in the same life of the log. So nothing can be missing, and nothing comes twice.

    Attributes:
        heard: Something of this source came on this stream.
    """

    def __init__(self, position: Position | None = None) -> None:
        self._epoch = position.epoch if position is not None else 0
        self._through = position.sequence if position is not None else 0
        self._exact = position is not None
        self.heard = False
        self._phase = _Phase.OPENED

    @property
    def position(self) -> Position | None:
        """The last position at which the follower's view was complete; None when it never was."""
        return Position(epoch=self._epoch, sequence=self._through) if self._exact else None

    @property
    def place(self) -> tuple[int, int]:
        """The epoch and the last sequence accounted for; zeros before the first."""
        return self._epoch, self._through

    def reopen(self) -> None:
        """Expect a new stream: what an unfinished snapshot brought is worth nothing."""
        self.heard = False
        self._phase = _Phase.OPENED

    def accept(self, message: WatchEventsResponse, kind: str) -> str | None:
        """Move on past a message, or return what is wrong with it and stay.

        Args:
            message: A message of this source.
            kind: Which of the `kind` fields it has.
        """
        self.heard = True
        if kind == "reset":
            if not message.epoch:
                return "a reset has epoch 0, which no log has"
            # Wherever it comes, it starts anew: there is nothing for it to follow on.
            self._epoch, self._through = message.epoch, message.through
            self._exact, self._phase = False, _Phase.SNAPSHOT
            return None
        if kind in {"state", "namespace"}:
            self._pass_by(message)
            return None
        problem = self._out_of_turn(kind) or self._out_of_place(message)
        if problem is None and kind == "batches":
            problem = _out_of_order(message)
        if problem is not None:
            return problem
        self._through = message.through
        if kind == "synced":
            self._exact, self._phase = True, _Phase.LIVE
        return None

    def _pass_by(self, message: WatchEventsResponse) -> None:
        here = (message.epoch, message.after) == self.place
        if here and self._phase is not _Phase.OPENED and message.through > message.after:
            self._through = message.through

    def _out_of_turn(self, kind: str) -> str | None:
        if self._phase is _Phase.OPENED and not (kind == "synced" and self._exact):
            return f"{kind} came before a reset"
        if self._phase is _Phase.LIVE and kind in {"snapshot", "synced"}:
            return f"{kind} came after synced without a reset"
        return None

    def _out_of_place(self, message: WatchEventsResponse) -> str | None:
        if message.epoch != self._epoch:
            return f"epoch {message.epoch} follows epoch {self._epoch} without a reset"
        if message.after > self._through:
            return f"sequences {self._through + 1} to {message.after} are missing"
        if message.after < self._through:
            return f"sequences {message.after + 1} to {self._through} came again"
        if message.through < message.after:
            return f"the message goes back from {message.after} to {message.through}"
        return None


def _out_of_order(message: WatchEventsResponse) -> str | None:
    last = message.after
    for batch in message.batches.batches:
        if not last < batch.sequence <= message.through:
            return f"batch {batch.sequence} does not lie between {last} and {message.through}"
        last = batch.sequence
    return None
