"""Runs of hashes: many hashes of one width in a single `bytes`."""

from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from struct import Struct

# Structs for up to this many hashes are kept; a longer run is unpacked this many at a time.
_CHUNK = 256


@lru_cache(maxsize=4096)
def _unpacker(skip: int, width: int, count: int) -> Struct:
    return Struct(f"{skip}x{width}s" * count)


@lru_cache(maxsize=4096)
def _whole(length: int, width: int, skip: int) -> Struct | None:
    """Return what unpacks so many bytes at once, if they are a run of moderate length."""
    count, rest = divmod(length, skip + width)
    return _unpacker(skip, width, count) if not rest and count <= _CHUNK else None


def split_hashes(packed: bytes, width: int, skip: int = 0) -> tuple[bytes, ...]:
    """Return the hashes of a run, in order.

    A cached `struct.Struct` unpacks at about 20 ns a hash, slicing takes five times that.

    Args:
        packed: The hashes one after the other.
        width: Bytes per hash.
        skip: Bytes to pass over before each hash.

    Raises:
        ValueError: When the length is no multiple of what one hash takes.
    """
    whole_run = _whole(len(packed), width, skip)
    if whole_run is not None:
        return whole_run.unpack(packed)
    each = skip + width
    count, rest = divmod(len(packed), each)
    if rest:
        raise ValueError(f"{len(packed)} bytes of hashes are no multiple of the width {each}")
    whole = count - count % _CHUNK
    body = _unpacker(skip, width, _CHUNK).iter_unpack(memoryview(packed)[: whole * each])
    tail = _unpacker(skip, width, count - whole).unpack_from(packed, whole * each)
    return (*chain.from_iterable(body), *tail)


def join_hashes(hashes: Iterable[bytes]) -> bytes:
    """Return the hashes one after the other, as they travel."""
    return b"".join(hashes)
