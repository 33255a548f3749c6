"""Calls that were refused for who made them, counted."""

from kvtier.wire.errors import KvtierError, Reason

_REASONS = (Reason.NO_IDENTITY, Reason.BAD_TOKEN, Reason.NOT_ALLOWED, Reason.REVOKED)


class Failures:
    """Counts refused calls by reason. The log has them as it has every refused call.

    Attributes:
        counts: How many there were of each reason, in lower case.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {reason.lower(): 0 for reason in _REASONS}

    def add(self, error: KvtierError) -> None:
        """Count a call that was refused or ended."""
        self.counts[error.reason.lower()] += 1
