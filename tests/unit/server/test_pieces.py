"""Cutting a stream of blocks: however it was cut into messages, the pieces are the blocks'."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from kvtier.server.transfers.pieces import cut
from kvtier.wire.chunks import Chunk
from kvtier.wire.errors import KvtierError
from tests.contract.support import payload


def messages_of(blocks: Sequence[bytes], cuts: Sequence[int]) -> list[Chunk]:
    """Cut the bytes of blocks into messages at the given places of the whole stream."""
    stream = b"".join(blocks)
    starts = [sum(map(len, blocks[:i])) for i in range(len(blocks) + 1)]
    bounds = [0, *sorted({at for at in cuts if 0 < at < len(stream)}), len(stream)]
    messages = []
    for begin, end in pairwise(bounds):
        place = max(i for i in range(len(blocks)) if starts[i] <= begin)
        ended = [i for i in range(len(blocks)) if begin < starts[i + 1] <= end]
        messages.append(
            Chunk(
                block_index=place,
                offset=begin - starts[place],
                checksums=[xxh3_64_intdigest(blocks[i]) for i in ended],
                data=stream[begin:end],
            )
        )
    return messages


@given(
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=6),
    cuts=st.lists(st.integers(0, 120), max_size=8),
)
def test_any_cutting_brings_the_same_blocks(sizes: list[int], cuts: list[int]) -> None:
    """Pieces join to the blocks, each with its checksum exactly at its end."""
    blocks = [payload(i, size) for i, size in enumerate(sizes)]

    pieces = [piece for message in messages_of(blocks, cuts) for piece in cut(message, sizes)]

    came = [b""] * len(sizes)
    for piece in pieces:
        assert piece.offset == len(came[piece.place])
        came[piece.place] += piece.data
        ended = len(came[piece.place]) == sizes[piece.place]
        assert piece.checksum == (xxh3_64_intdigest(blocks[piece.place]) if ended else None)
    assert came == blocks


def test_a_message_without_data_brings_nothing() -> None:
    """An empty message is allowed, wherever it points."""
    assert cut(Chunk(block_index=7), [64]) == []


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (Chunk(block_index=2, data=b"x"), "reaches block 2; the offer has 2 blocks"),
        (Chunk(block_index=1, data=bytes(9)), "reaches block 2"),
        (Chunk(block_index=1 << 31, data=b"x"), "reaches block 2147483648"),
        (Chunk(offset=8, data=b"x"), "offset is 8; block 0 has 8 bytes"),
        (Chunk(offset=1 << 63, data=b"x"), "offset is 9223372036854775808"),
        (Chunk(data=bytes(8)), "1 blocks end .* but it has 0 checksums"),
        (Chunk(data=bytes(7), checksums=[1]), "0 blocks end .* but it has 1"),
        (Chunk(data=bytes(16), checksums=[1, 2, 3]), "2 blocks end .* it has 3"),
    ],
)
def test_data_outside_the_blocks_is_refused(message: Chunk, told: str) -> None:
    """The refusal says what does not fit."""
    with pytest.raises(KvtierError, match=told) as error:
        cut(message, [8, 8])

    assert error.value.code.name == "INVALID_ARGUMENT"
