"""Blocks are cut into messages and put together again."""

import grpc
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from kvtier.client import InvalidArgumentError, KvtierError, block_sizes
from kvtier.client.chunks import Assembly
from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.result_pb2 import ReadResult
from kvtier.v1.transfer_service_pb2 import ReadBlocksResponse
from kvtier.wire.chunks import Block, Chunk, cut

from .messages import NAMESPACE, block_run, block_set
from .patience import patiently

MISS, CORRUPT = ReadResult.READ_RESULT_MISS, ReadResult.READ_RESULT_CORRUPT

_blocks = st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=8)


def _cut(blocks: dict[int, bytes], size: int) -> list[Chunk]:
    sent = [Block(place, memoryview(each), _checksum(each)) for place, each in blocks.items()]
    messages = map(ReadBlocksResponse.FromString, cut(sent, size))
    return [Chunk(each.block_index, each.offset, each.checksums, each.data) for each in messages]


def _checksum(data: bytes) -> int:
    return xxhash.xxh3_64_intdigest(data)


@patiently
@given(_blocks, st.integers(1, 64))
def test_what_is_cut_comes_together_again(blocks: list[bytes], size: int) -> None:
    """Blocks of any sizes, cut at any size, are the same blocks afterwards."""
    assembly = Assembly([len(each) for each in blocks])

    for chunk in _cut(dict(enumerate(blocks)), size):
        assert len(chunk.data) <= size
        assembly.add(chunk)
    assembly.end()

    assert assembly.payloads == blocks
    assert not any(assembly.results)


@patiently
@given(_blocks, st.integers(1, 64), st.data())
def test_a_chunk_never_runs_over_a_place_that_is_left_out(
    blocks: list[bytes], size: int, data: st.DataObject
) -> None:
    """Read by places alone, every byte lies in the block that it is of."""
    chosen = data.draw(st.sets(st.integers(0, len(blocks) - 1)))
    sent = {place: each for place, each in enumerate(blocks) if place in chosen}
    found = {place: bytearray() for place in sent}
    checksums: list[int] = []

    for chunk in _cut(sent, size):
        place, offset, rest = chunk.block_index, chunk.offset, chunk.data
        while rest:
            assert offset == len(found[place])
            piece = rest[: len(blocks[place]) - offset]
            found[place] += piece
            rest, place, offset = rest[len(piece) :], place + 1, 0
        checksums += chunk.checksums

    assert found == sent
    assert checksums == [_checksum(each) for each in sent.values()]


@patiently
@given(_blocks, st.integers(1, 64), st.data())
def test_data_runs_on_over_blocks_that_are_not_sent(
    blocks: list[bytes], size: int, data: st.DataObject
) -> None:
    """What a node passes over is told with its reason, and the others are whole."""
    missing = data.draw(st.sets(st.integers(0, len(blocks) - 1)))
    places = [place for place in range(len(blocks)) if place not in missing]
    stream = _cut(dict(enumerate(blocks[place] for place in places)), size)
    assembly = Assembly([len(each) for each in blocks])

    assembly.skip(sorted(missing), [MISS] * len(missing))
    for chunk in stream:
        assembly.add(chunk._replace(block_index=places[chunk.block_index]))
    assembly.end()

    assert assembly.payloads == [
        None if place in missing else each for place, each in enumerate(blocks)
    ]
    assert [place for place, result in enumerate(assembly.results) if result] == sorted(missing)


def test_a_block_that_does_not_match_its_checksum_costs_only_itself() -> None:
    """Bytes that changed on the way are CORRUPT, not delivered, and the next block is fine."""
    assembly = Assembly([3, 3])

    assembly.add(Chunk(0, 0, [_checksum(b"abc"), _checksum(b"def")], b"abXdef"))
    assembly.end()

    assert assembly.payloads == [None, b"def"]
    assert assembly.results == [CORRUPT, ReadResult.READ_RESULT_UNSPECIFIED]


@pytest.mark.parametrize(
    ("chunks", "words"),
    [
        ([Chunk(0, 1, [], b"bc")], "block 0 goes on at byte 1"),
        ([Chunk(0, 0, [], b"a"), Chunk(0, 2, [], b"c")], "block 0 goes on at byte 2"),
        ([Chunk(0, 0, [], b"abc")], "block 0 has no checksum"),
        ([Chunk(0, 0, [1, 2], b"abc")], "more checksums than blocks"),
        ([Chunk(1, 0, [1], b"abcd")], "data behind block 1"),
        ([Chunk(7, 0, [], b"a")], "data behind block 1"),
        ([Chunk(0, 0, [_checksum(b"abc")], b"abc")] * 2, "came twice"),
    ],
)
def test_a_stream_that_breaks_the_framing_is_refused(chunks: list[Chunk], words: str) -> None:
    """Bytes are never guessed into place; the error says what did not fit."""
    assembly = Assembly([3, 3])
    for chunk in chunks[:-1]:
        assembly.add(chunk)

    with pytest.raises(KvtierError, match=words) as caught:
        assembly.add(chunks[-1])

    assert caught.value.code is grpc.StatusCode.INTERNAL


def test_an_early_end_is_refused() -> None:
    """A transfer that ends before every block was sent or passed over did not succeed."""
    assembly = Assembly([3, 3])
    assembly.add(Chunk(0, 0, [_checksum(b"abc")], b"abc"))

    with pytest.raises(KvtierError, match="the end came before block 1 of 2"):
        assembly.end()


@pytest.mark.parametrize(("places", "results"), [([2], [MISS]), ([0], []), ([], [MISS])])
def test_results_must_fit_their_places(
    places: list[int], results: list[ReadResult.ValueType]
) -> None:
    """A result for a block that was not asked for, or for none, is refused."""
    with pytest.raises(KvtierError, match="broke the framing"):
        Assembly([3, 3]).skip(places, results)


def test_block_sizes_follow_the_groups() -> None:
    """Each block has the size of its group, in the order of the request."""
    sizes = block_sizes(NAMESPACE, [block_set(1, 2), block_run(3, group=1)])

    assert sizes == [64, 64, 128]


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        (BlockSet(block_hashes=b"1234567"), "7 bytes, no multiple of the hash width 8"),
        (block_set(1, group=2), "group of entry 0 is 2; namespace test has groups 0 to 1"),
    ],
)
def test_block_sizes_refuse_what_the_namespace_does_not_have(blocks: BlockSet, words: str) -> None:
    """A wrong width or group is told with what is allowed."""
    with pytest.raises(InvalidArgumentError, match=words):
        block_sizes(NAMESPACE, [blocks])
