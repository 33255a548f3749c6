"""What a file or object says of the block in it, and what it is called.

A block is a header and its payload. The header says all that a restart needs to know, and is the
same bytes for the same record, so that a reader compares it instead of taking it apart. All numbers
are little-endian. Names are made of digests and numbers only: no text of a request is part of one.
"""

import re
import struct
from collections.abc import Sequence
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import NamedTuple

from xxhash import xxh3_64_intdigest

_MAGIC = b"kvtier\x00\x01"
# Magic, header bytes, group, size, checksum, start, serial, namespace, lengths of scope, hash,
# parent and adapter name, and of the token ids in bytes.
_FIXED = struct.Struct("<8sIIQQQQ32sHHHHI")
_SEAL = struct.Struct("<Q")
_IDENTITY = struct.Struct("<32sIHH")
# A header with a chain of 64-byte hashes, a long adapter name and no token ids fits.
HEAD_BYTES = 1024
_MOST_BYTES = 1 << 24
_SERIAL_LENGTH = 16
_NAME = re.compile(f"[0-9a-f]{{64}}-[0-9a-f]{{{_SERIAL_LENGTH}}}")


class Record(NamedTuple):
    """A block as it lies on a shelf.

    Attributes:
        namespace: The namespace's fingerprint, 32 bytes.
        group: The KV-cache group.
        scope: The scope.
        hash: The hash.
        parent: The parent's hash; empty at position 0.
        start: Where the block starts, in tokens.
        size: Bytes of the payload.
        checksum: XXH3-64 of the payload.
        adapter_name: The adapter's name.
        token_ids: Token ids as 32-bit little-endian numbers, where the namespace keeps them.
        serial: The number of the write, ascending over all lives of a tier, so that no name is used
            twice.
    """

    namespace: bytes
    group: int
    scope: bytes
    hash: bytes
    parent: bytes
    start: int
    size: int
    checksum: int
    adapter_name: str
    token_ids: bytes
    serial: int

    @property
    def name(self) -> str:
        """What the block is called on its shelf."""
        return make_name(self.namespace, self.group, self.scope, self.hash, self.serial)


class BadHeaderError(Exception):
    """Bytes that are no header; the message says why."""


class CutShortError(BadHeaderError):
    """The beginning of a header.

    Attributes:
        needed: Bytes of all of it.
    """

    def __init__(self, needed: int) -> None:
        super().__init__("its header is cut short")
        self.needed = needed


def make_name(namespace: bytes, group: int, scope: bytes, hash_: bytes, serial: int) -> str:
    """Return the name of one write of a block: SHA-256 of its identity, and the serial, in hex."""
    identity = _IDENTITY.pack(namespace, group, len(scope), len(hash_)) + scope + hash_
    return f"{sha256(identity).hexdigest()}-{serial:0{_SERIAL_LENGTH}x}"


def serial_of(name: str) -> int | None:
    """Return the serial in a name; None when it is no name that `make_name` gives."""
    return int(name[-_SERIAL_LENGTH:], 16) if _NAME.fullmatch(name) else None


def header_bytes(*, scope: int, hash_width: int, adapter_name: int, token_ids: int) -> int:
    """Return the most bytes that the header of a block takes, given the bytes of its parts."""
    return _FIXED.size + scope + 2 * hash_width + adapter_name + token_ids + _SEAL.size


def encode_header(record: Record) -> bytes:
    """Return the header of a block."""
    adapter_name = record.adapter_name.encode()
    parts = (record.scope, record.hash, record.parent, adapter_name, record.token_ids)
    lengths = list(map(len, parts))
    fixed = _FIXED.pack(
        _MAGIC,
        _FIXED.size + sum(lengths) + _SEAL.size,
        record.group,
        record.size,
        record.checksum,
        record.start,
        record.serial,
        record.namespace,
        *lengths,
    )
    sealed = b"".join((fixed, *parts))
    return sealed + _SEAL.pack(xxh3_64_intdigest(sealed))


def decode_header(head: bytes) -> tuple[Record, int]:
    """Return the record of a header, and the bytes of the header; what follows is passed over.

    Raises:
        CutShortError: When the header has more bytes than are given.
        BadHeaderError: When no header begins like this, or it was changed since it was written.
    """
    if len(head) < _FIXED.size or not head.startswith(_MAGIC):
        raise BadHeaderError("it does not begin like a block")
    _, length, group, size, checksum, start, serial, namespace, *lengths = _FIXED.unpack_from(head)
    end = length - _SEAL.size
    if not _FIXED.size <= end < _MOST_BYTES:
        raise BadHeaderError(f"its header cannot have {length} bytes")
    if len(head) < length:
        raise CutShortError(length)
    if _SEAL.unpack_from(head, end)[0] != xxh3_64_intdigest(head[:end]):
        raise BadHeaderError("its header was changed")
    scope, hash_, parent, adapter_name, token_ids = _cut(head, lengths, end)
    try:
        name = adapter_name.decode()
    except UnicodeDecodeError as error:
        raise BadHeaderError("its adapter name is no text") from error
    record = Record(
        namespace, group, scope, hash_, parent, start, size, checksum, name, token_ids, serial
    )
    return record, length


def _cut(head: bytes, lengths: Sequence[int], end: int) -> list[bytes]:
    """Return what follows the numbers of a header, part by part."""
    ends = list(accumulate(lengths, initial=_FIXED.size))
    if ends[-1] != end:
        raise BadHeaderError("its header does not add up")
    return [head[first:last] for first, last in pairwise(ends)]
