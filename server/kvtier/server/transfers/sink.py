"""Where the bytes of blocks go that a call writes: what every kind of tier does for it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias

from kvtier.server.transfers.pieces import Piece
from kvtier.v1.result_pb2 import WriteResult

Verdict: TypeAlias = WriteResult.ValueType
Verdicts: TypeAlias = list[WriteResult.ValueType]


class UnderWay:
    """Work of threads for one call, which may outlast it."""

    def __init__(self) -> None:
        self._works: set[asyncio.Future[Any]] = set()

    def add(self, work: "asyncio.Future[Any]") -> None:
        """Note work that began."""
        self._works.add(work)
        work.add_done_callback(self._works.discard)

    def then(self, act: Callable[[], None]) -> None:
        """Act once all of it has ended, at once where none is under way."""
        if self._works:
            ended = asyncio.gather(*self._works, return_exceptions=True)
            ended.add_done_callback(lambda _: act())
        else:
            act()


class Sink(Protocol):
    """Takes the pieces of the blocks of one call.

    Attributes:
        inline_bytes: Whole blocks of up to so many bytes are written by `write_whole`.
        ahead_bytes: Most bytes that it keeps of a message that it is not done with; 0 when the next
            message may only come when it is.
        under_way: What threads are doing for it.
    """

    inline_bytes: int
    ahead_bytes: int
    under_way: UnderWay

    def put(self, slots: Sequence[int], pieces: Sequence[Piece]) -> Verdicts | Awaitable[Verdicts]:
        """Take pieces in order, each of the block in its slot, which waits to be written.

        Returns:
            For each piece: WRITTEN, CORRUPT or FAILED where the block ends in it; anything where it
            does not. Or what is to be waited for to know that: the slots are held until it is over,
            also when nobody waits.

        Raises:
            KvtierError: INVALID_ARGUMENT for pieces in an order that the sink cannot take.
        """
