"""What stores and loads report."""

from dataclasses import dataclass

from kvtier.v1.block_pb2 import NamespacedBlocks
from kvtier.v1.result_pb2 import ReadResult, StoreOutcome, WriteResult


@dataclass(frozen=True, slots=True)
class StoreReport:
    """What became of a store.

    Attributes:
        outcomes: One a block, in the offer's order: which were wanted, there already, deferred
            to a later offer, and so on.
        evicted: The blocks that made room, in order.
        results: One a block: WRITE_RESULT_STORED where this call made it readable,
            WRITE_RESULT_UNSPECIFIED where it was not written.
    """

    outcomes: tuple[StoreOutcome.ValueType, ...]
    evicted: tuple[NamespacedBlocks, ...]
    results: tuple[WriteResult.ValueType, ...]


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What a load brought.

    Attributes:
        payloads: One a block, in the request's order: its bytes, or None where there are none.
        results: Why a block has no bytes: READ_RESULT_MISS, or READ_RESULT_CORRUPT when its bytes
            did not match their checksum, on the node or on the way; READ_RESULT_UNSPECIFIED where
            it has.
    """

    payloads: tuple[bytes | None, ...]
    results: tuple[ReadResult.ValueType, ...]
