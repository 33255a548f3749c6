"""The parts of a batch: one encoded event each, with what filters ask about it."""

from typing import Final, NamedTuple

CLEARED: Final = 2
REMOVED: Final = 3
STORED: Final = 4


class Part(NamedTuple):
    """One encoded TierCleared, BlockRemoved or BlockStored message.

    Attributes:
        field: The message's field number in EventBatch: `CLEARED`, `REMOVED` or `STORED`.
        tier: The index of the tier on its node.
        medium: The tier's medium, a `kvtier.v1.Medium` number.
        namespace: The namespace's fingerprint; empty for a clear of every namespace.
        basic: The encoded message, without tag, as the BASIC view has it.
        full: The same with token ids; the same object as `basic` where there are none.
        blocks: The number of blocks that were stored or removed; 0 for a clear, which the log
            counts itself.
    """

    field: int
    tier: int
    medium: int
    namespace: bytes
    basic: bytes
    full: bytes
    blocks: int
