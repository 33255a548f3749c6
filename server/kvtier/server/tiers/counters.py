"""What a tier counts."""

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """What happened in a tier since the start, in blocks; refused counts offers."""

    stored: int = 0
    removed: int = 0
    evicted: int = 0
    corrupt: int = 0
    loaded: int = 0
    mismatched: int = 0
    abandoned: int = 0
    refused: int = 0
    demoted: int = 0
    promoted: int = 0
    dropped: int = 0
    written_through: int = 0
    copies_failed: int = 0
    deferred: int = 0
