"""What condition a tier of files or objects is in."""

from collections.abc import Callable

from kvtier.v1.event_service_pb2 import TierState

READY = TierState.TIER_STATE_READY
READ_ONLY = TierState.TIER_STATE_READ_ONLY
RECOVERING = TierState.TIER_STATE_RECOVERING


class Health:
    """A tier's condition: what it has still to find, and what is the matter with it.

    Args:
        recovering: Whether it begins without knowing what it holds.

    Attributes:
        recovering: The tier does not know yet all that it holds.
        trouble: Why it cannot be written to, in a few words; empty when it can.
        full: It is only that there is no room: blocks can be removed.
        troubles: How often something was the matter after nothing had been.
        looked_at: Blocks that recovery has looked at so far.
        to_look_at: Blocks that it has to look at; 0 until they are counted.
    """

    def __init__(self, *, recovering: bool = True) -> None:
        self.recovering = recovering
        self.trouble = ""
        self.full = False
        self.troubles = 0
        self.looked_at = self.to_look_at = 0
        self._listeners: list[Callable[[], None]] = []

    @property
    def state(self) -> TierState.ValueType:
        """RECOVERING, else READ_ONLY when something is the matter, else READY."""
        if self.recovering:
            return RECOVERING
        return READ_ONLY if self.trouble else READY

    @property
    def reason(self) -> str:
        """Why the tier is in its state; empty when it is READY."""
        if self.trouble or not self.recovering:
            return self.trouble
        if not self.to_look_at:
            return "counting blocks"
        return f"{100 * self.looked_at // self.to_look_at} %"

    def listen(self, listener: Callable[[], None]) -> None:
        """Let somebody know of every change of the state or of the trouble."""
        self._listeners.append(listener)

    @property
    def accepts(self) -> bool:
        """Whether blocks can be written and removed."""
        return self.state == READY

    @property
    def removes(self) -> bool:
        """Whether blocks can be removed; also where there is no room for more."""
        return not self.recovering and (self.full or not self.trouble)

    def fault(self, trouble: str, *, full: bool = False) -> None:
        """Note that something is the matter, or only that there is no room."""
        self.full = full
        if trouble != self.trouble:
            self.troubles += not self.trouble
            self.trouble = trouble
            self._tell()

    def heal(self) -> None:
        """Note that nothing is the matter any more."""
        if self.trouble:
            self.trouble, self.full = "", False
            self._tell()

    def recovered(self) -> None:
        """Note that the tier knows all that it holds."""
        if self.recovering:
            self.recovering = False
            self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
