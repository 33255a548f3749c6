"""Where the blocks come from that a call reads: what every kind of tier does for it."""

from collections.abc import AsyncGenerator, Iterator
from typing import Protocol

from kvtier.v1.result_pb2 import ReadResult
from kvtier.wire.chunks import Block

# Places of blocks that are not sent, and why.
Refused = dict[int, ReadResult.ValueType]


class Source(Protocol):
    """Reads the blocks of one call, each equal to its checksum.

    Attributes:
        inline_bytes: Calls of up to so many bytes are served without a thread.
    """

    inline_bytes: int

    def portions(self) -> AsyncGenerator[Iterator[Block], None]:
        """Yield the blocks in portions, each to be taken before the next, perhaps in a thread.

        Close it: it may be reading ahead.
        """

    def take_refused(self) -> Refused:
        """Return which blocks of those asked for so far are not sent, each once."""
