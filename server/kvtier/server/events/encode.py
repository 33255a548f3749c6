"""The bytes of events, written by hand.

The generated classes would cost more than all the rest of an event. What names a tier, namespace,
group and scope is a header that the caller keeps; the hashes are passed through as they came.
"""

from collections.abc import Sequence

from kvtier.v1.event_service_pb2 import BlockStored
from kvtier.wire.framing import bytes_field, bytes_field_header, varint, varint_field

_SEQUENCE_TAG = varint(1 << 3)


def stored_header(  # noqa: PLR0917 - the message's fields, in order
    tier: str, medium: int, namespace: bytes, group: int, scope: bytes, adapter_name: str
) -> bytes:
    """Return the fields that every BlockStored of one origin begins with.

    Args:
        tier: The tier's name.
        medium: The tier's medium, a `kvtier.v1.Medium` number.
        namespace: The namespace's fingerprint, 32 bytes.
        group: The KV-cache group.
        scope: The scope, 0 to 32 bytes.
        adapter_name: The adapter's name; may be empty.
    """
    header = removed_header(tier, medium, namespace, group, scope)
    return header + bytes_field(6, adapter_name.encode()) if adapter_name else header


def removed_header(tier: str, medium: int, namespace: bytes, group: int, scope: bytes) -> bytes:
    """Return the fields that every BlockRemoved of one group and scope begins with.

    The arguments are those of `stored_header`.
    """
    header = encode_cleared(tier, medium, namespace) + varint_field(4, group)
    return header + bytes_field(5, scope) if scope else header


def encode_cleared(tier: str, medium: int, namespace: bytes = b"") -> bytes:
    """Return a TierCleared; without a namespace it is for all of them."""
    header = bytes_field(1, tier.encode()) + varint_field(2, medium)
    return header + bytes_field(3, namespace) if namespace else header


def encode_removed(header: bytes, reason: int, block_hashes: bytes) -> bytes:
    """Return a BlockRemoved.

    Args:
        header: From `removed_header`.
        reason: A `kvtier.v1.RemovalReason` number.
        block_hashes: The hashes one after the other.
    """
    return b"".join(
        (
            header,
            varint_field(6, reason),
            bytes_field_header(7, len(block_hashes)),
            block_hashes,
        )
    )


def encode_stored(  # noqa: PLR0917 - the message's fields, in order
    header: bytes,
    run_lengths: Sequence[int],
    start_positions: Sequence[int],
    parent_block_hashes: bytes,
    block_hashes: bytes,
    token_ids: bytes = b"",
) -> bytes:
    """Return a BlockStored.

    Args:
        header: From `stored_header`.
        run_lengths: The number of blocks of each run. Empty means one run of all the blocks.
        start_positions: Where each run starts, in tokens; one entry a run.
        parent_block_hashes: The parents of the runs that do not start at 0, one after the other.
        block_hashes: The hashes of all the blocks, one after the other.
        token_ids: The token ids of all the blocks, as 32-bit numbers in the machine's order.
    """
    return b"".join(
        (
            header,
            bytes_field(7, b"".join(map(varint, run_lengths))) if run_lengths else b"",
            bytes_field(8, b"".join(map(varint, start_positions))),
            bytes_field(9, parent_block_hashes) if parent_block_hashes else b"",
            bytes_field_header(10, len(block_hashes)),
            block_hashes,
            _token_ids_field(token_ids) if token_ids else b"",
        )
    )


def encode_batch(sequence: int, parts: Sequence[bytes]) -> bytes:
    """Return an EventBatch as one entry of EventBatches, from parts that carry their tags."""
    number = _SEQUENCE_TAG + varint(sequence)
    length = len(number) + sum(map(len, parts))
    return b"".join((bytes_field_header(1, length), number, *parts))


def _token_ids_field(token_ids: bytes) -> bytes:
    return BlockStored(token_ids=memoryview(token_ids).cast("I")).SerializeToString()
