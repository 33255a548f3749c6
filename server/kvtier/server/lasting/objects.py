"""Blocks as objects of an S3-compatible server, one object each, under a prefix of their own."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import structlog

from kvtier.server.lasting.bucket import Bucket
from kvtier.server.lasting.layout import (
    BLOCKS,
    MOST_DESCRIPTION,
    NAMESPACES,
    block_path,
    is_fingerprint,
    namespace_path,
)
from kvtier.server.lasting.object_errors import BucketError, ExistsError
from kvtier.server.lasting.ownership import OwnedError, Ownership
from kvtier.server.lasting.record import serial_of
from kvtier.server.lasting.shelf import DamagedError, MissingError, ShelfError, always
from kvtier.server.stores.base import Bytes, StoreError

_log = structlog.get_logger(__name__)

_PROBE = "probe"
# How long opening waits for a server that does not answer, in seconds.
_OPENING = 3.0


class ObjectShelf:
    """Keeps blocks under `PREFIX/blocks`, descriptions under `PREFIX/namespaces`.

    The prefix is claimed by an object `PREFIX/OWNER`. A server that cannot be reached is no error:
    the shelf opens unclaimed, and every operation tries to claim before it does anything. An
    operation ends after about the I/O timeout, whatever the server does.

    Args:
        url: `s3://BUCKET/PREFIX`.
        node_id: The id of the node that owns the prefix.
        tier: The name of the tier that owns it.
        endpoint: URL of the server; None: AWS.
        region: The region; None: AWS_REGION, or us-east-1.
        io_timeout: How long an operation may take, in seconds.
        concurrency: How many operations there are at one time.

    Raises:
        StoreError: When the prefix is another's, or the server refuses in a way that does not pass,
            such as with wrong credentials or without the bucket.
    """

    def __init__(
        self,
        url: str,
        *,
        node_id: str,
        tier: str,
        endpoint: str | None = None,
        region: str | None = None,
        io_timeout: float,
        concurrency: int,
    ) -> None:
        # Writes that failed, and may come to be all the same.
        self._doubtful: set[str] = set()

        def bucket(patience: float, connections: int) -> Bucket:
            return Bucket(
                url, endpoint=endpoint, region=region, patience=patience, connections=connections
            )

        try:
            self._bucket = bucket(io_timeout, concurrency)
            self._ownership = Ownership(bucket(min(io_timeout, _OPENING), 1), node_id, tier)
            self._ownership.claim()
        except OwnedError as error:
            raise StoreError(
                f"{url} cannot be used: {error}; give the tier another prefix, or remove "
                f"{url.rstrip('/')}/OWNER if nothing uses the prefix any more"
            ) from error
        except BucketError as error:
            if error.advice:
                raise StoreError(f"{url} cannot be used: {error}; {error.advice}") from error

    def cost(self, length: int) -> int:
        """See `Shelf.cost`: objects take what they hold."""
        return length

    def put(
        self, name: str, parts: Sequence[bytes | memoryview], wanted: Callable[[], bool] = always
    ) -> None:
        """See `Shelf.put`.

        What a server may still write after its answer was given up on is removed before the next
        write; until then, or when it comes later still, it lies there whole.
        """
        key = block_path(name)
        self._ownership.ensure()
        self._settle()
        whole: Bytes = np.concatenate([np.frombuffer(part, np.uint8) for part in parts])
        if not wanted():
            raise ShelfError("the block is not wanted any more")
        try:
            self._create(key, whole)
        except ShelfError:
            # Also where this attempt was refused: an earlier one may have been done unheard.
            self._doubtful.add(key)
            raise

    def get(self, name: str, parts: Sequence[Bytes]) -> None:
        """See `Shelf.get`: one request brings all parts."""
        length = sum(part.nbytes for part in parts)
        data, size = self._read(name, length)
        if not size == length == data.nbytes:
            raise DamagedError
        whole: Bytes = np.frombuffer(data, np.uint8)
        begin = 0
        for part in parts:
            end = begin + part.nbytes
            part[:] = whole[begin:end]
            begin = end

    def head(self, name: str, length: int) -> tuple[bytes, int]:
        """See `Shelf.head`: one request brings both."""
        data, size = self._read(name, length)
        return bytes(data), size

    def delete(self, names: Sequence[str]) -> None:
        """See `Shelf.delete`."""
        keys = list(map(block_path, names))
        self._ownership.ensure()
        self._bucket.remove(keys)

    def names(self) -> Iterator[list[str]]:
        """See `Shelf.names`; each page may take the I/O timeout."""
        self._ownership.ensure()
        for keys in self._bucket.keys(BLOCKS):
            names = [(key, key.rpartition("/")[2]) for key in keys]
            yield [
                name
                for key, name in names
                if serial_of(name) is not None and key == block_path(name)
            ]

    def describe(self, fingerprint: str, description: bytes) -> None:
        """See `Shelf.describe`."""
        key = namespace_path(fingerprint)
        self._ownership.ensure()
        self._bucket.replace(key, description)

    def descriptions(self) -> dict[str, bytes]:
        """See `Shelf.descriptions`; each may take the I/O timeout."""
        self._ownership.ensure()
        found = {}
        for keys in self._bucket.keys(NAMESPACES):
            for key in keys:
                fingerprint = key.removeprefix(f"{NAMESPACES}/")
                if is_fingerprint(fingerprint):
                    found[fingerprint] = self._description(key)
        return {name: description for name, description in found.items() if description is not None}

    def forget(self, fingerprint: str) -> None:
        """See `Shelf.forget`."""
        key = namespace_path(fingerprint)
        self._ownership.ensure()
        self._bucket.remove([key])

    def probe(self, length: int) -> None:
        """See `Shelf.probe`: the prefix is this tier's still, and so many bytes can be written."""
        self._ownership.claim()
        self._doubtful.add(_PROBE)
        self._bucket.replace(_PROBE, bytes(length))
        self._settle()

    def close(self) -> None:
        """See `Shelf.close`: the prefix stays this tier's, by its configuration."""

    def _read(self, name: str, most: int) -> tuple[memoryview, int]:
        key = block_path(name)
        self._ownership.ensure()
        return self._bucket.read(key, most)

    def _create(self, key: str, whole: Bytes) -> None:
        try:
            self._bucket.create(key, whole.data)
        except ExistsError:
            # Names are used once: it is there from an attempt whose answer was lost. Otherwise the
            # server was still at that attempt, and wants another.
            if not self._is_there(key, whole.nbytes):
                self._bucket.create(key, whole.data)

    def _is_there(self, key: str, length: int) -> bool:
        try:
            _, size = self._bucket.read(key, 1)
        except MissingError:
            return False
        if size != length:
            raise ShelfError("an object of another size has the name of a new block")
        return True

    def _settle(self) -> None:
        """Remove what failed writes may have left."""
        doubtful = self._doubtful.copy()
        self._bucket.remove(list(doubtful))
        self._doubtful -= doubtful

    def _description(self, key: str) -> bytes | None:
        try:
            text, size = self._bucket.read(key, MOST_DESCRIPTION)
        except MissingError:
            return None
        if size > MOST_DESCRIPTION:
            _log.warning("a description of a namespace is too long and is ignored", key=key)
            return None
        return bytes(text)
