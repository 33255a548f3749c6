"""Events written by hand are what the generated classes would have written."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from kvtier.server.events.encode import (
    encode_batch,
    encode_cleared,
    encode_removed,
    encode_stored,
    removed_header,
    stored_header,
)
from kvtier.v1.block_pb2 import Medium, RemovalReason
from kvtier.v1.event_service_pb2 import BlockRemoved, BlockStored, EventBatches, TierCleared
from kvtier.wire.framing import bytes_field

from .virtual_time import patient

_names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40)
_numbers = st.integers(0, 2**32 - 1)
_positions = st.integers(0, 2**63)
_spaces = st.binary(min_size=32, max_size=32)
_scopes = st.binary(max_size=32)
_runs = st.lists(st.tuples(st.integers(1, 300), _positions), min_size=1, max_size=12)


@patient
@given(
    tier=_names,
    medium=st.integers(1, 2),
    namespace=_spaces,
    group=_numbers,
    scope=_scopes,
    adapter_name=_names | st.just(""),
    width=st.integers(8, 64),
    runs=_runs,
)
def test_a_stored_event_parses_as_blockstored(
    *,
    tier: str,
    medium: int,
    namespace: bytes,
    group: int,
    scope: bytes,
    adapter_name: str,
    width: int,
    runs: list[tuple[int, int]],
) -> None:
    """Any layout of runs, hash width, scope and adapter comes back field by field."""
    lengths = [length for length, _ in runs]
    starts = [start for _, start in runs]
    parents = b"p" * width * sum(1 for start in starts if start)
    hashes = b"h" * width * sum(lengths)

    header = stored_header(tier, medium, namespace, group, scope, adapter_name)
    encoded = encode_stored(header, lengths, starts, parents, hashes)

    expected = BlockStored(
        tier=tier,
        medium=Medium.ValueType(medium),
        namespace=namespace,
        group=group,
        scope=scope,
        adapter_name=adapter_name,
        run_lengths=lengths,
        start_positions=starts,
        parent_block_hashes=parents,
        block_hashes=hashes,
    )
    assert BlockStored.FromString(encoded) == expected
    assert len(encoded) == expected.ByteSize()


@patient
@given(st.lists(_numbers, min_size=1, max_size=200))
def test_token_ids_are_added_to_the_same_event(token_ids: list[int]) -> None:
    """With token ids an event says the same and the token ids too."""
    header = stored_header("cpu0", 2, b"n" * 32, 0, b"", "")

    plain = encode_stored(header, (), [0], b"", b"h" * 32)
    full = encode_stored(header, (), [0], b"", b"h" * 32, array("I", token_ids).tobytes())

    assert list(BlockStored.FromString(full).token_ids) == token_ids
    without = BlockStored.FromString(full)
    without.ClearField("token_ids")
    assert without == BlockStored.FromString(plain)


@patient
@given(
    tier=_names,
    medium=st.integers(1, 2),
    namespace=_spaces,
    group=_numbers,
    scope=_scopes,
    reason=st.integers(1, 3),
    hashes=st.binary(min_size=8),
)
def test_a_removed_event_parses_as_blockremoved(
    *,
    tier: str,
    medium: int,
    namespace: bytes,
    group: int,
    scope: bytes,
    reason: int,
    hashes: bytes,
) -> None:
    """Every field of a removal comes back."""
    header = removed_header(tier, medium, namespace, group, scope)

    encoded = encode_removed(header, reason, hashes)

    expected = BlockRemoved(
        tier=tier,
        medium=Medium.ValueType(medium),
        namespace=namespace,
        group=group,
        scope=scope,
        reason=RemovalReason.ValueType(reason),
        block_hashes=hashes,
    )
    assert BlockRemoved.FromString(encoded) == expected
    assert len(encoded) == expected.ByteSize()


@patient
@given(_names, st.integers(1, 2), _spaces | st.just(b""))
def test_a_cleared_event_parses_as_tiercleared(tier: str, medium: int, namespace: bytes) -> None:
    """A clear names its tier, and its namespace when it was for one only."""
    encoded = encode_cleared(tier, medium, namespace)

    expected = TierCleared(tier=tier, medium=Medium.ValueType(medium), namespace=namespace)
    assert TierCleared.FromString(encoded) == expected
    assert len(encoded) == expected.ByteSize()


def test_batches_join_into_one_message() -> None:
    """Encoded batches lie one after the other as the entries of EventBatches."""
    one = encode_batch(1, [bytes_field(2, encode_cleared("cpu0", 2))])
    other = encode_batch(300, [bytes_field(2, encode_cleared("gpu0", 1, b"n" * 32))] * 3)

    batches = EventBatches.FromString(one + other).batches

    assert [(b.sequence, len(b.cleared)) for b in batches] == [(1, 1), (300, 3)]
    assert batches[1].cleared[2] == TierCleared(
        tier="gpu0", medium=Medium.MEDIUM_GPU, namespace=b"n" * 32
    )
