"""The requests of a write, made while the ones before them are sent."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from xxhash import xxh3_64_intdigest

from kvtier.client.arguments import bad_argument, view_bytes
from kvtier.v1.result_pb2 import StoreOutcome
from kvtier.v1.transfer_service_pb2 import WriteBlocksRequest
from kvtier.wire.chunks import CHUNK_BYTES, Block, cut, encode_chunk
from kvtier.wire.errors import quote

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from kvtier.v1.tier_service_pb2 import PrepareStoreResponse

# With so little to send, waiting for the answer costs more than sending what is not wanted.
EAGER_BYTES = CHUNK_BYTES
# Less than this is copied on the loop: it costs less than a turn of a thread.
_INLINE_BYTES = 256 << 10

Moved = Callable[[], None]
Views = Mapping[int, memoryview]


def whole_payloads(
    payloads: Sequence["Buffer"], sizes: Sequence[int]
) -> Sequence[bytes | memoryview]:
    """Return the bytes of every block, when each has its size."""
    whole = [each for each in payloads if type(each) is bytes]
    if len(whole) == len(payloads) and list(map(len, whole)) == list(sizes):
        return whole
    return list(views(dict(enumerate(payloads)), sizes).values())


def views(payloads: Mapping[int, "Buffer"], sizes: Sequence[int]) -> dict[int, memoryview]:
    """Return the bytes of each payload by place, ascending, when each has its block's size."""
    found = {}
    for index, payload in payloads.items():
        if not isinstance(index, int) or not 0 <= index < len(sizes):
            raise bad_argument(f"payloads has place {quote(index)}; there are {len(sizes)} blocks")
        view = found[index] = view_bytes(f"payloads[{index}]", payload)
        if len(view) != sizes[index]:
            raise bad_argument(
                f"payloads[{index}] has {len(view)} bytes; the block has {sizes[index]}"
            )
    return dict(sorted(found.items()))


async def at_once(first: WriteBlocksRequest, payloads: Sequence[bytes | memoryview]) -> bytes:
    """Return the one message of an offer with the bytes of all its blocks."""
    if sum(map(len, payloads)) <= _INLINE_BYTES:
        return _whole(first, payloads)
    return await asyncio.get_running_loop().run_in_executor(None, _whole, first, payloads)


def _whole(first: WriteBlocksRequest, payloads: Sequence[bytes | memoryview]) -> bytes:
    checksums = list(map(xxh3_64_intdigest, payloads))
    return encode_chunk(0, 0, checksums, payloads, before=first.SerializeToString())


async def lease_requests(
    first: WriteBlocksRequest, payloads: Views, moved: Moved
) -> AsyncIterator[bytes]:
    """Yield the messages of a write under a lease."""
    yield first.SerializeToString()
    async for message in _ahead(_messages(payloads, payloads)):
        yield message
        moved()


async def offer_requests(
    first: WriteBlocksRequest,
    payloads: Views,
    prepared: "asyncio.Future[PrepareStoreResponse]",
    moved: Moved,
) -> AsyncIterator[bytes]:
    """Yield the messages of an offer: when it is answered, the bytes of the blocks wanted.

    Args:
        first: The offer.
        payloads: The bytes of all its blocks.
        prepared: Its answer, when it has come.
        moved: Called when a message was taken.
    """
    yield first.SerializeToString()
    outcomes = (await prepared).outcomes
    wanted = [
        place
        for place, outcome in enumerate(outcomes)
        if outcome == StoreOutcome.STORE_OUTCOME_WRITE
    ]
    async for message in _ahead(_messages(payloads, wanted)):
        yield message
        moved()


def _messages(payloads: Views, places: Iterable[int]) -> Iterator[bytes]:
    views = ((place, payloads[place]) for place in places)
    blocks = (Block(place, view, xxh3_64_intdigest(view)) for place, view in views)
    return cut(blocks)


async def _ahead(messages: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield messages; a thread makes the next, with its checksums, while one is sent."""
    loop = asyncio.get_running_loop()
    coming = loop.run_in_executor(None, next, messages, None)
    while (message := await coming) is not None:
        coming = loop.run_in_executor(None, next, messages, None)
        yield message
