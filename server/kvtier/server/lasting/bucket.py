"""Objects under a prefix of an S3 bucket, and how long a call for them may take."""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from kvtier.server.config.values import split_bucket
from kvtier.server.lasting.object_errors import BucketError, ExistsError, explained
from kvtier.server.lasting.shelf import MissingError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

_PAGE = 1000
# Objects from this size on are sent in parts of that size.
_LARGE, _PART, _PARTS_AT_ONCE = 32 << 20, 8 << 20, 4


class Bucket:
    """Objects by their keys under a prefix.

    All methods block and are for threads. They raise `BucketError` when the server fails, at the
    latest after the patience is used up. Credentials come from the usual AWS sources.

    Args:
        url: `s3://BUCKET/PREFIX`.
        endpoint: URL of the server; None: AWS, or what the environment says.
        region: The region; None: what the environment says, or us-east-1.
        patience: Seconds after which a call has ended, retries and all.
        connections: How many connections are kept open for further calls.
        clock: What tells the time, in seconds.

    Raises:
        BucketError: When the settings cannot be used.
    """

    def __init__(
        self,
        url: str,
        *,
        endpoint: str | None,
        region: str | None,
        patience: float,
        connections: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._hurry = patience / 4
        self._name, prefix = split_bucket(url)
        client = _client(patience, connections, endpoint)
        # TLS guards what is sent already; signing it as well halves the rate.
        given = {
            "endpoint": endpoint,
            "region": region,
            "unsigned_payload": not client["allow_http"],
        }
        try:
            self._store = S3Store(
                self._name,
                prefix=prefix,
                config={k: v for k, v in given.items() if v},  # type: ignore[arg-type]
                virtual_hosted_style_request=False,
                client_options=client,
                retry_config=_retries(patience),
            )
        except (BaseError, ValueError):
            # What obstore says of them may have their values in it.
            raise BucketError(
                "the settings cannot be used",
                "check endpoint, region, and AWS_* in the environment",
            ) from None

    def create(self, key: str, data: bytes | memoryview) -> None:
        """Write an object that is not there; it is there whole or not at all.

        A large one is sent in parts, several at a time.

        Raises:
            ExistsError: When it is there, maybe from an attempt whose answer was lost.
        """
        if len(data) >= _LARGE:
            self._create_in_parts(key, data)
            return
        self._call(lambda: obstore.put(self._store, key, data, mode="create", use_multipart=False))

    def _create_in_parts(self, key: str, data: bytes | memoryview) -> None:
        # obstore knows no condition for parts, so it is asked before. Nobody else uses the key.
        try:
            self.read(key, 1)
        except MissingError:
            with explained(self._name):
                obstore.put(
                    self._store,
                    key,
                    data,
                    use_multipart=True,
                    chunk_size=_PART,
                    max_concurrency=_PARTS_AT_ONCE,
                )
        else:
            raise ExistsError("there is one already")

    def replace(self, key: str, data: bytes) -> None:
        """Write an object, in place of one that is there."""
        with explained(self._name):
            obstore.put(self._store, key, data, use_multipart=False)

    def read(self, key: str, most: int) -> tuple[memoryview, int]:
        """Return the first bytes of an object, and how long all of it is.

        Args:
            key: Its key.
            most: How many bytes, at least 1; a shorter object gives all of its bytes.

        Raises:
            MissingError: When it is not there.
        """
        try:
            with explained(self._name):
                found = obstore.get(self._store, key, options={"range": (0, most)})
                return memoryview(found.bytes()), found.meta["size"]
        except BucketError as error:
            if error.status == 416:  # only an empty object has no first byte
                return memoryview(b""), 0
            raise

    def remove(self, keys: Sequence[str]) -> None:
        """Remove objects; those that are not there are passed over."""
        if keys:
            self._call(lambda: obstore.delete(self._store, keys))

    def keys(self, folder: str) -> Iterator[list[str]]:
        """Yield the keys under a folder, a page at a time; each page may take all the patience."""
        with explained(self._name):
            for page in obstore.list(self._store, folder, chunk_size=_PAGE):
                yield [found["path"] for found in page]

    def _call(self, call: Callable[[], object]) -> None:
        """Do what obstore does not repeat by itself, once more when its connection broke early."""
        until = self._clock() + self._hurry
        try:
            with explained(self._name):
                call()
        except BucketError as error:
            if not error.doubtful or self._clock() > until:
                raise
            with explained(self._name):
                call()


def _client(patience: float, connections: int, endpoint: str | None) -> "ClientConfig":
    return {
        "connect_timeout": timedelta(seconds=patience / 4),
        "timeout": timedelta(seconds=patience / 2),
        "pool_max_idle_per_host": str(connections),
        "allow_http": bool(endpoint) and str(endpoint).startswith("http:"),
    }


def _retries(patience: float) -> "RetryConfig":
    """Return when to try again: the last attempt begins early enough to end in time."""
    return {
        "retry_timeout": timedelta(seconds=patience / 4),
        "backoff": {
            "init_backoff": timedelta(seconds=min(0.1, patience / 200)),
            "max_backoff": timedelta(seconds=patience / 8),
        },
    }
