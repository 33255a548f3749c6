"""Putting blocks together again from the messages of a transfer."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

import grpc
import xxhash

from kvtier.client.arguments import bad_argument
from kvtier.client.errors import KvtierError, Reason, typed
from kvtier.v1.block_pb2 import BlockRun, BlockSet
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.v1.result_pb2 import ReadResult
from kvtier.wire.chunks import Chunk


def block_sizes(namespace: Namespace, blocks: Iterable[BlockSet | BlockRun]) -> list[int]:
    """Return the bytes of each block of an offer or request, in its order.

    Raises:
        InvalidArgumentError: When a hash list is no multiple of the namespace's hash width, or a
            group is not one of the namespace's.
    """
    sizes: list[int] = []
    for place, part in enumerate(blocks):
        count, rest = divmod(len(part.block_hashes), namespace.hash_width)
        if rest:
            raise bad_argument(
                f"block_hashes of entry {place} has {len(part.block_hashes)} bytes, no multiple "
                f"of the hash width {namespace.hash_width} of namespace {namespace.name}"
            )
        if part.group >= len(namespace.block_bytes):
            raise bad_argument(
                f"group of entry {place} is {part.group}; namespace {namespace.name} has groups "
                f"0 to {len(namespace.block_bytes) - 1}"
            )
        sizes.extend([namespace.block_bytes[part.group]] * count)
    return sizes


class Assembly:
    """The blocks of a read, as they come.

    Args:
        sizes: Bytes of each block.
        into: Where each block's bytes are to lie, of its size; None makes bytes of them.

    Attributes:
        payloads: The bytes of each block that came whole and equal to its checksum, else None;
            also None where they lie in `into`.
        results: Why a block has no bytes; READ_RESULT_UNSPECIFIED where it has.
    """

    def __init__(self, sizes: Sequence[int], into: Sequence[memoryview] | None = None) -> None:
        self.payloads: list[bytes | None] = [None] * len(sizes)
        self.results: list[ReadResult.ValueType] = [ReadResult.READ_RESULT_UNSPECIFIED] * len(sizes)
        self._sizes = sizes
        self._into = into
        self._came = [False] * len(sizes)
        self._index = -1
        self._parts: list[memoryview] = []
        self._have = 0

    def skip(self, indexes: Sequence[int], results: Sequence[ReadResult.ValueType]) -> None:
        """Note blocks that are not sent, and why.

        Raises:
            KvtierError: INTERNAL, when the node names other blocks than were asked for.
        """
        for index, result in zip_longest(indexes, results):
            if index is None or result is None or index >= len(self._sizes):
                raise framing_error(
                    f"{len(indexes)} places and {len(results)} results, place {index}"
                )
            self.results[index] = result

    def add(self, chunk: Chunk) -> None:
        """Take a chunk's bytes.

        Raises:
            KvtierError: INTERNAL, when the chunk does not follow on what came before.
        """
        index, offset = chunk.block_index, chunk.offset
        checksums = iter(chunk.checksums)
        data = memoryview(chunk.data)
        while data:
            index = self._next_sent(index)
            if offset != (self._have if index == self._index else 0):
                raise framing_error(f"block {index} goes on at byte {offset}")
            piece = data[: self._sizes[index] - offset]
            data = data[len(piece) :]
            self._take(index, piece)
            if self._have == self._sizes[index]:
                self._finish(index, next(checksums, None))
            index, offset = index + 1, 0
        if next(checksums, None) is not None:
            raise framing_error(f"more checksums than blocks end at block {index}")

    def end(self) -> None:
        """Check that every block came or was passed over.

        Raises:
            KvtierError: INTERNAL, when the node ended the transfer too early.
        """
        for index, (came, result) in enumerate(zip(self._came, self.results, strict=True)):
            if not came and not result:
                raise framing_error(f"the end came before block {index} of {len(self._sizes)}")

    def _next_sent(self, index: int) -> int:
        while index < len(self._sizes) and self.results[index]:
            index += 1
        if index >= len(self._sizes):
            raise framing_error(f"there is data behind block {len(self._sizes) - 1}")
        return index

    def _take(self, index: int, piece: memoryview) -> None:
        if index != self._index:
            self._index, self._parts, self._have = index, [], 0
        have = self._have + len(piece)
        if self._into is None:
            self._parts.append(piece)
        else:
            self._into[index][self._have : have] = piece
        self._have = have

    def _finish(self, index: int, checksum: int | None) -> None:
        if checksum is None or self._came[index]:
            raise framing_error(f"block {index} has no checksum or came twice")
        payload = b"".join(self._parts) if self._into is None else self._into[index]
        self._index, self._parts, self._have = -1, [], 0
        if xxhash.xxh3_64_intdigest(payload) != checksum:
            self.results[index] = ReadResult.READ_RESULT_CORRUPT
            return
        self._came[index] = True
        if isinstance(payload, bytes):
            self.payloads[index] = payload


def framing_error(what: str) -> KvtierError:
    """Return the error of a node that does not keep to the framing."""
    return typed(
        grpc.StatusCode.INTERNAL,
        Reason.INTERNAL,
        f"the node broke the framing of the transfer: {what}",
    )
