"""Cutting what is asked of a peer into steps, and what it sends into parts."""

from hypothesis import given
from hypothesis import strategies as st

from kvtier.server.operations.fetching import past_skipped
from kvtier.server.operations.pulling import cut_into_steps
from kvtier.server.tiers.offer import Run
from kvtier.server.tiers.spaces import NamespaceInfo, Space
from kvtier.wire.chunks import Chunk
from tests.contract.support import TOKENS, block_hash, namespace

SPACE = Space(NamespaceInfo.of(bytes(32), namespace()), 0, b"", bytes(8))
SIZES = [3, 5, 2, 4, 6]


def chain(*blocks: int, parent: int | None = None) -> Run:
    """A run with token ids that tell which block they belong to."""
    start = 0 if parent is None else TOKENS
    tokens = b"".join(block.to_bytes(4, "little") * TOKENS for block in blocks)
    above = b"" if parent is None else block_hash(parent)
    return Run(SPACE, tuple(map(block_hash, blocks)), above, start, tokens, "poet")


def facts(run: Run) -> list[tuple[object, ...]]:
    """What a run says of each of its blocks."""
    keys = SPACE.keys(run.hashes)
    return [
        (key, parent, start, run.tokens_of(i), run.adapter_name)
        for i, (key, parent, start) in enumerate(
            zip(keys, run.parents(keys), run.starts(), strict=True)
        )
    ]


@given(
    st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=8), min_size=1, max_size=5),
    st.integers(1, 7),
)
def test_steps_have_every_block_once_and_say_the_same_of_it(
    blocks: list[list[int]], most: int
) -> None:
    """In order, in full steps but the last, with the parent and position of the first mention."""
    runs = [chain(*each, parent=99) for each in blocks]
    first: dict[object, tuple[object, ...]] = {}
    for run in runs:
        for fact in facts(run):
            first.setdefault(fact[0], fact)

    steps = [[fact for run in step for fact in facts(run)] for step in cut_into_steps(runs, most)]

    assert [fact for step in steps for fact in step] == list(first.values())
    assert [len(step) for step in steps[:-1]] == [most] * (len(steps) - 1)
    assert 0 < len(steps[-1]) <= most


def parts(message: Chunk, *skipped: int) -> list[tuple[int, int, list[int], bytes]]:
    return [
        (part.block_index, part.offset, list(part.checksums), bytes(part.data))
        for part in past_skipped(message, SIZES, set(skipped))
    ]


def test_a_message_that_meets_no_skipped_block_stays_whole() -> None:
    """Blocks before it, behind it, and right at its end do not matter."""
    message = Chunk(block_index=1, checksums=[1, 2], data=b"aaaaabb")

    assert parts(message) == parts(message, 0, 3, 4) == [(1, 0, [1, 2], b"aaaaabb")]


def test_data_passes_over_skipped_blocks() -> None:
    """Each block gets its own part, with its checksum where it ends."""
    message = Chunk(block_index=0, offset=1, checksums=[1, 2], data=b"aaccdd")

    assert parts(message, 1) == [(0, 1, [1], b"aa"), (2, 0, [2], b"cc"), (3, 0, [], b"dd")]


def test_data_may_begin_at_a_skipped_block() -> None:
    """It belongs to the next that is sent."""
    message = Chunk(block_index=1, checksums=[1], data=b"dddd")

    assert parts(message, 1, 2) == [(3, 0, [1], b"dddd")]


def test_data_behind_the_last_block_is_left_for_the_writer_to_refuse() -> None:
    """It is not lost on the way."""
    message = Chunk(block_index=3, checksums=[1], data=b"ddddxx")

    assert parts(message, 4) == [(3, 0, [1], b"dddd"), (5, 0, [0], b"xx")]


def test_data_behind_the_end_of_its_block_is_left_for_the_writer_to_refuse() -> None:
    """It is never taken for the data of a block that follows."""
    at_the_end = Chunk(block_index=0, offset=3, checksums=[1], data=b"xxcc")
    beyond = Chunk(block_index=0, offset=5, checksums=[1], data=b"xxcc")

    assert parts(at_the_end, 1) == [(0, 3, [1], b"xxcc")]
    assert parts(beyond, 1) == [(0, 5, [1], b"xxcc")]
