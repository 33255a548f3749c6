"""What a tier counts."""

from collections import Counter
from dataclasses import dataclass, field

from kvtier.v1.block_pb2 import REMOVAL_REASON_UNSPECIFIED

# A clear has an event of its own, without a reason.
CLEARED = REMOVAL_REASON_UNSPECIFIED


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
    lost: int = 0
    trimmed: int = 0
    scrubbed: int = 0


@dataclass(slots=True)
class Tally:
    """What happened in a tier since the start and `ListTiers` does not tell, in blocks.

    Attributes:
        hits: Blocks that loads and reads asked for and found, as often as they were asked for.
        removals: Blocks that ceased to be readable, by `RemovalReason`; `CLEARED` for a clear.
    """

    hits: int = 0
    removals: Counter[int] = field(default_factory=Counter)
