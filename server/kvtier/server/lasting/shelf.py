"""What keeps whole blocks under names: a directory of files, or a prefix of objects."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from kvtier.server.stores.base import Bytes


def always() -> bool:
    """Return True: what is written is wanted, whatever happens meanwhile."""
    return True


class MissingError(Exception):
    """Nothing has this name."""


class DamagedError(Exception):
    """What has this name is of another length than was asked for, or is no plain file."""


class ShelfError(Exception):
    """The shelf does not do what it should.

    The message is a few words for an operator, such as "no space left on device": it is shown as
    the reason of the tier's state. It never has a secret in it.
    """


class FullError(ShelfError):
    """The shelf has no room for more; what it has can be read and removed."""


class Shelf(Protocol):
    """Keeps whole blocks, each under a name that is used once.

    All methods but `cost` block, are for threads, and may run in several at one time. All but
    `close` raise `ShelfError` when the shelf fails.

    Names are those of `record.make_name`; what else lies on the shelf is neither read nor removed.
    Descriptions are small texts by a fingerprint in hexadecimal.
    """

    def cost(self, length: int) -> int:
        """Return how many bytes a block of a length, header and all, takes of the capacity."""

    def put(
        self, name: str, parts: Sequence[bytes | memoryview], wanted: Callable[[], bool] = always
    ) -> None:
        """Write a block under a new name: afterwards it is there whole, and before not at all.

        When it raises, nothing is there under the name, or soon will be.

        Args:
            name: The name.
            parts: Its bytes, in order. They may change from the moment on when it is not wanted.
            wanted: Asked when all bytes are written, or were taken over, and before the block gets
                its name; when it is not wanted any more, that is a `ShelfError`.
        """

    def get(self, name: str, parts: Sequence[Bytes]) -> None:
        """Fill arrays with the bytes of a block, in order; they are as long together as it is.

        Raises:
            MissingError: When there is none.
            DamagedError: When it is longer or shorter, or no plain file; the arrays are undefined.
        """

    def head(self, name: str, length: int) -> tuple[bytes, int]:
        """Return the first bytes of a block, up to a length, and how long all of it is.

        Raises:
            MissingError: When there is none.
            DamagedError: When it is no plain file.
        """

    def delete(self, names: Sequence[str]) -> None:
        """Remove blocks for good; those that are not there are passed over."""

    def names(self) -> Iterator[list[str]]:
        """Yield the names of all blocks, a few thousand at a time, and of nothing else."""

    def describe(self, fingerprint: str, description: bytes) -> None:
        """Keep the description of a namespace; again is harmless."""

    def descriptions(self) -> dict[str, bytes]:
        """Return all descriptions by their fingerprints.

        Those that cannot be read are passed over with a warning.
        """

    def forget(self, fingerprint: str) -> None:
        """Remove the description of a namespace, if it is there."""

    def probe(self, length: int) -> None:
        """Find out whether blocks of a length can be written, leaving nothing behind."""

    def close(self) -> None:
        """Let others have the shelf; closing again does nothing. Operations may be stuck in it."""
