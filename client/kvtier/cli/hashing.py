"""Block hashes and payloads for replays: made from ids, so that any mix-up shows."""

import hashlib
from functools import lru_cache

HASH_WIDTH = 32


@lru_cache(maxsize=65536)
def block_hash(block_id: int) -> bytes:
    """Return the 32-byte hash that stands for a trace's block id."""
    return hashlib.sha256(b"kvtier trace block" + block_id.to_bytes(8, "big")).digest()


def payload(digest: bytes, size: int) -> bytes:
    """Return the bytes of the block with that hash: `size` of them, unlike any other block's."""
    return hashlib.shake_128(digest).digest(size)


def chain_hash(parent: bytes, data: bytes, width: int) -> bytes:
    """Return the hash of a block made from its content and its parent's hash.

    Args:
        parent: The parent's hash; empty for the first block.
        data: The block's bytes.
        width: Bytes of the hash, at most 64.
    """
    return hashlib.blake2b(parent + data, digest_size=width, person=b"kvtier put").digest()
