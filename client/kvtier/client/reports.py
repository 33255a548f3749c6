"""What stores and loads report."""

from dataclasses import dataclass
from enum import Enum

from kvtier.v1.block_pb2 import NamespacedBlocks
from kvtier.v1.result_pb2 import ReadResult, StoreOutcome, WriteResult


class DataPath(Enum):
    """How bytes went between this process and a node."""

    STREAM = "stream"
    SHARED_MEMORY = "shared memory"


@dataclass(frozen=True, slots=True)
class StoreReport:
    """What became of a store.

    Attributes:
        outcomes: One a block, in the offer's order: which were wanted, there already, deferred
            to a later offer, and so on.
        evicted: The blocks that made room, in order.
        results: One a block: WRITE_RESULT_STORED where this call made it readable,
            WRITE_RESULT_UNSPECIFIED where it was not wanted, else why it is not there, such as
            WRITE_RESULT_FAILED when the tier could not keep it.
        path: How the bytes went.
    """

    outcomes: tuple[StoreOutcome.ValueType, ...]
    evicted: tuple[NamespacedBlocks, ...]
    results: tuple[WriteResult.ValueType, ...]
    path: DataPath = DataPath.STREAM


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What a load brought.

    Attributes:
        payloads: One a block, in the request's order: its bytes, or None where there are none.
        results: Why a block has no bytes: READ_RESULT_MISS; READ_RESULT_CORRUPT when its bytes did
            not match their checksum, on the node or on the way; READ_RESULT_FAILED when it could
            not be read now, though the tier has it. READ_RESULT_UNSPECIFIED where it has.
    """

    payloads: tuple[bytes | None, ...]
    results: tuple[ReadResult.ValueType, ...]


@dataclass(frozen=True, slots=True)
class BlockViews:
    """What a load through `Blocks` brought.

    Attributes:
        payloads: One a block, in the request's order: its bytes, or None where there are none.
        results: As in `LoadReport`.
        path: How the bytes came.
    """

    payloads: tuple[memoryview | None, ...]
    results: tuple[ReadResult.ValueType, ...]
    path: DataPath
