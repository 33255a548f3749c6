"""The generated workload, and the hashes and payloads of its blocks."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtier.cli.hashing import HASH_WIDTH, block_hash, chain_hash, payload
from kvtier.cli.trace import TOKENS_PER_BLOCK, Request
from kvtier.cli.workload import Shape, Workload


@pytest.fixture(scope="module", name="requests")
def _requests() -> list[Request]:
    return list(Workload(seed=3).requests(2000))


def test_equal_seeds_give_equal_requests(requests: list[Request]) -> None:
    """A workload can be repeated, also in parts, and another seed gives another."""
    again = Workload(seed=3)

    assert [*again.requests(500), *again.requests(1500)] == requests
    assert list(Workload(seed=4).requests(2000)) != requests


def test_a_prompt_has_a_block_for_each_512_tokens_begun(requests: list[Request]) -> None:
    """The number of ids follows from the prompt's length, as in the published trace."""
    for request in requests:
        assert len(request.hash_ids) == -(-request.input_length // TOKENS_PER_BLOCK)
        assert len(set(request.hash_ids)) == len(request.hash_ids)


def test_an_id_stands_for_its_whole_prefix(requests: list[Request]) -> None:
    """A block always has the same parent, as prefix blocks do."""
    parents: dict[int, int | None] = {}

    for request in requests:
        for parent, child in pairwise((None, *request.hash_ids)):
            assert child is not None
            assert parents.setdefault(child, parent) == parent


def test_the_workload_has_shared_prompts_growth_and_a_tail(requests: list[Request]) -> None:
    """Some blocks are asked for very often, a good part again, and most only once."""
    uses = Counter(block for request in requests for block in request.hash_ids)
    references = uses.total()

    repeated = 1 - len(uses) / references
    once = sum(count == 1 for count in uses.values()) / len(uses)
    lengths = sorted(len(request.hash_ids) for request in requests)

    assert 0.3 < repeated < 0.6
    assert 0.6 < once < 0.97
    assert uses.most_common(1)[0][1] > 200
    assert lengths[-1] > 10 * lengths[len(lengths) // 2]


def test_time_never_runs_backwards(requests: list[Request]) -> None:
    """Requests come in the order of their timestamps."""
    assert all(one.timestamp <= other.timestamp for one, other in pairwise(requests))


def test_no_prompt_is_longer_than_the_shape_allows() -> None:
    """The longest prompt bounds documents and conversations alike."""
    shape = Shape(longest=4096)

    requests = list(Workload(1, shape).requests(500))

    assert max(request.input_length for request in requests) == 4096


@given(st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=2, unique=True))
def test_blocks_have_hashes_and_payloads_of_their_own(ids: list[int]) -> None:
    """A block's payload can be told from its hash, and is unlike another block's."""
    one, other = (block_hash(block_id) for block_id in ids)

    assert len(one) == len(other) == HASH_WIDTH
    assert one != other
    assert payload(one, 64) == payload(one, 64)
    assert payload(one, 64) != payload(other, 64)
    assert len(payload(one, 1000)) == 1000


@pytest.mark.parametrize("width", [8, 32, 64])
def test_a_made_hash_depends_on_content_and_parent(width: int) -> None:
    """Equal bytes after another parent are another block."""
    root = chain_hash(b"", b"data", width)

    assert len(root) == width
    assert chain_hash(root, b"data", width) not in (root, chain_hash(b"", b"date", width))
