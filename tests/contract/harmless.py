"""Odd values that a node may accept, each for a reason; every other bad value it must refuse."""

from .damage import Bad

_NUMBERS = {"largest", "half of the largest", "-1 as others write it"}
_SAME_LENGTH = {"NULs", "another"}
_OTHER_TEXT = {"another", "path"}
_OTHER_LENGTH = {"one byte", "a byte less", "a byte more", "twice as long"}

# By the end of a field's path.
_HARMLESS: dict[str, set[str]] = {
    # Opaque bytes of a fixed width: what they are is the caller's affair.
    "lease_id": _SAME_LENGTH,
    "parent_block_hash": _SAME_LENGTH,
    "block_hashes": _SAME_LENGTH | {"twice as long"},
    # Within a node a copy takes positions from the source.
    "CopyBlocksRequest.runs.start_position": {"half of the largest"},
    # Opaque bytes of up to 32, and none is the common scope.
    "scope": _SAME_LENGTH | _OTHER_LENGTH | {"absent"},
    # Text for people, which names nothing that the node has.
    "owner": _OTHER_TEXT,
    "ReleaseLeasesRequest.owner": {"absent"},
    "release_leases.owner": {"absent"},
    "UnpinBlocksRequest.owner": {"absent"},
    "request_id": _OTHER_TEXT | {"absent"},
    "adapter_name": _OTHER_TEXT | {"absent"},
    "namespace.name": _OTHER_TEXT,
    # A token id is any number of 32 bits, and they need not be told.
    "token_ids": _NUMBERS | {"absent"},
    # Zero, false and nothing are values like others here.
    "group": {"absent"},
    "force": {"absent"},
    "failed": {"absent"},
    "include_blocks": {"absent"},
    "view": {"absent"},
    "move": {"absent"},
    "locate": {"absent"},
    # The bytes of an offer to WriteBlocks come through the call.
    "offer.mapping": _NUMBERS | {"absent"},
    "promote": {"absent"},
    "wait": {"absent"},
    "wait_copies": {"absent"},
    "ttl": {"absent"},
    "ttl.seconds": {"absent"},
    "ttl.nanos": {"absent"},
    "block_index": {"absent"},
    "offset": {"absent"},
    "page_token": {"absent"},
    "ClearTierRequest.namespace": {"absent"},
    "ListBlocksRequest.namespace": {"absent"},
    # A page has as many blocks as fit.
    "page_size": {"absent", "largest", "half of the largest"},
    # Filters: none means all, and naming something twice changes nothing.
    "tiers": {"absent", "twice", "many"},
    "media": {"absent", "twice", "many"},
    "localities": {"absent", "twice", "many"},
    "namespaces": _SAME_LENGTH | {"absent", "twice", "many"},
    # A duplicate is handled once and answered for both places.
    "blocks": {"twice"},
    "chains": {"twice"},
    "runs": {"twice"},
    "failed_blocks": {"absent", "twice", "many"},
    # Each lease has a result of its own.
    "leases": {"twice"},
    "ReleaseLeasesRequest.leases": {"absent"},
    "release_leases.leases": {"absent"},
    "UnpinBlocksRequest.leases": {"absent"},
    "leases.id": _SAME_LENGTH,
    "leases.generation": _NUMBERS | {"absent"},
    # Positions of other nodes are passed over; one that cannot be resumed starts with a reset.
    "positions": {"absent"},
    "positions.node_id": _OTHER_TEXT | {"NUL", "line break", "1 MiB"},
    "positions.position": {"absent"},
    "positions.position.epoch": _NUMBERS,
    "positions.position.sequence": _NUMBERS | {"absent"},
    # A block has a result of its own; data runs on into the next block.
    "checksums": _NUMBERS,
    # Without them only what was sent is stored.
    "CompleteStoreRequest.checksums": {"absent"},
    "complete_store.checksums": {"absent"},
    # A call that is made again gets the first answer, and any number tells the answers apart.
    "calls": {"twice", "many"},
    "calls.number": _NUMBERS | {"absent"},
    "data": _SAME_LENGTH | {"a byte more", "twice as long"},
}


def is_harmless(message_name: str, bad: Bad) -> bool:
    """Tell whether a message may be accepted for all that is odd about it."""
    if not bad.path:
        # What is left of a spoiled message may be a good one.
        return True
    whole = (message_name, *bad.path)
    ends = (".".join(whole[first:]) for first in range(len(whole)))
    return any(bad.kind in _HARMLESS.get(end, ()) for end in ends)
