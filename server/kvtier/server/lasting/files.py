"""A shelf of files in a directory that one process holds."""

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import structlog

from kvtier.server.lasting.disk import FULL, Disk, Entry, RootedDisk, reason_of
from kvtier.server.lasting.holding import Hold, open_root, unusable
from kvtier.server.lasting.layout import (
    BLOCK_DIRECTORIES,
    MOST_DESCRIPTION,
    NAMESPACES,
    block_directory,
    block_path,
    is_fingerprint,
    namespace_path,
)
from kvtier.server.lasting.preparing import prepare, refuse_foreign
from kvtier.server.lasting.record import serial_of
from kvtier.server.lasting.shelf import DamagedError, FullError, MissingError, ShelfError, always
from kvtier.server.lasting.whole import open_plain, read_all, read_start
from kvtier.server.lasting.writing import Writer
from kvtier.server.stores.base import Bytes

_log = structlog.get_logger(__name__)

# A network file system tells the size of its transfers, of which files are no multiples.
_LEAST_BLOCK, _MOST_BLOCK = 4 << 10, 64 << 10
_MOST_NAMES = 4096


class FileShelf:
    """Keeps each block in a file, which gets its name when it is whole.

    Nothing else should write to the directory. Links in place of files are never followed; in place
    of directories they are refused at the opening, and looked for no more.

    Args:
        directory: An absolute path; the directory is made when only it is missing.
        sync: What a block outlives. `none`: the end of the process; `close`: after a power cut it
            is whole or gone; `always`: after a power cut it is there.
        disk: What gives the files below a directory, by its descriptor.

    Raises:
        StoreError: When the directory cannot be used, or another process has it.
    """

    def __init__(
        self,
        directory: Path,
        *,
        sync: Literal["none", "close", "always"],
        disk: Callable[[int], Disk] = RootedDisk,
    ) -> None:
        self._working = _Working()
        try:
            root = open_root(directory)
            # An operation may be stuck in it when the shelf is closed.
            weakref.finalize(self, os.close, root)
            self._disk = disk(root)
            refuse_foreign(self._disk, directory)
            self._hold = Hold(root, directory)
            with self._let_go_when_it_fails():
                prepare(self._disk, directory)
                block = self._disk.space().block
                self._hold.sign()
        except OSError as error:
            raise unusable(directory, error) from error
        self._block = min(max(block, _LEAST_BLOCK), _MOST_BLOCK)
        self._writer = Writer(
            self._disk, flushes=sync != "none", lasts=sync == "always", keep=self._hold.keep
        )

    def cost(self, length: int) -> int:
        """Return a length in whole blocks of the file system."""
        return -(-length // self._block) * self._block

    def put(
        self, name: str, parts: Sequence[bytes | memoryview], wanted: Callable[[], bool] = always
    ) -> None:
        """Write a block under a new name.

        Raises:
            ShelfError: When it is not there, or was not wanted, and nothing else is.
            ValueError: When it is no name of a block.
        """
        path = block_path(name)
        with self._working:
            self._writer.add(path, parts, wanted)

    def get(self, name: str, parts: Sequence[Bytes]) -> None:
        """Fill arrays with the bytes of a block.

        Raises:
            MissingError: When there is none.
            DamagedError: When it is longer or shorter, or no plain file.
            ShelfError: When it cannot be read.
            ValueError: When it is no name of a block.
        """
        path = block_path(name)
        wanted = sum(part.nbytes for part in parts)
        with self._working:
            file, length = open_plain(self._disk, path)
            try:
                if length != wanted:
                    raise DamagedError(f"it has {length} bytes and should have {wanted}")
                read_all(self._disk, file, [part.data for part in parts])
            finally:
                self._disk.close(file)

    def head(self, name: str, length: int) -> tuple[bytes, int]:
        """Return the first bytes of a block, and how long all of it is.

        Raises:
            MissingError: When there is none.
            DamagedError: When it is no plain file.
            ShelfError: When it cannot be read.
            ValueError: When it is no name of a block.
        """
        path = block_path(name)
        with self._working:
            return read_start(self._disk, path, length)

    def delete(self, names: Sequence[str]) -> None:
        """Remove blocks, or links and the like under their names; directories stay.

        Raises:
            ShelfError: When one cannot be removed; others may be gone.
            ValueError: When one is no name of a block; none is removed.
        """
        paths = list(map(block_path, names))
        with self._working:
            self._writer.remove(paths)

    def names(self) -> Iterator[list[str]]:
        """Yield the names of all blocks, a few thousand at a time.

        Raises:
            ShelfError: When they cannot be listed.
        """
        batch: list[str] = []
        for directory in BLOCK_DIRECTORIES:
            found = (entry.name for entry in self._entries(directory) if entry.plain)
            batch += [name for name in found if _belongs(name, directory)]
            while len(batch) >= _MOST_NAMES:
                yield batch[:_MOST_NAMES]
                batch = batch[_MOST_NAMES:]
        if batch:
            yield batch

    def describe(self, fingerprint: str, description: bytes) -> None:
        """Keep the description of a namespace, in place of the one before.

        Raises:
            ShelfError: When it cannot be written.
            ValueError: When it is no fingerprint.
        """
        path = namespace_path(fingerprint)
        with self._working:
            self._writer.replace(path, [description])

    def descriptions(self) -> dict[str, bytes]:
        """Return all descriptions that can be read, by their fingerprints.

        Raises:
            ShelfError: When they cannot be listed.
        """
        names = [entry.name for entry in self._entries(NAMESPACES) if is_fingerprint(entry.name)]
        found = {name: self._description(name) for name in sorted(names)}
        return {name: description for name, description in found.items() if description is not None}

    def forget(self, fingerprint: str) -> None:
        """Remove the description of a namespace, if it is there.

        Raises:
            ShelfError: When it cannot be removed.
            ValueError: When it is no fingerprint.
        """
        path = namespace_path(fingerprint)
        with self._working:
            self._writer.remove([path])

    def probe(self, length: int) -> None:
        """Find out whether blocks of a length can be written.

        Raises:
            ShelfError: When they cannot, or when what failed writes left cannot be removed.
        """
        with self._working:
            self._writer.rehearse(length)

    def close(self) -> None:
        """Let others have the directory; no write under way ends well from here on."""
        self._working.closed = True
        self._writer.stop()
        self._hold.release()

    @contextmanager
    def _let_go_when_it_fails(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._hold.release()
            raise

    def _entries(self, directory: str) -> list[Entry]:
        with self._working, suppress(FileNotFoundError, NotADirectoryError):
            return self._disk.entries(directory)
        return []

    def _description(self, fingerprint: str) -> bytes | None:
        try:
            start, length = read_start(self._disk, namespace_path(fingerprint), MOST_DESCRIPTION)
        except MissingError:
            return None
        except DamagedError as error:
            reason = str(error)
        except OSError as error:
            reason = reason_of(error)
        else:
            if length <= MOST_DESCRIPTION:
                return start
            reason = f"it has {length} bytes"
        _log.warning(
            "a namespace's description cannot be read", namespace=fingerprint, reason=reason
        )
        return None


class _Working:
    """Turns what a disk fails with into errors of a shelf; any number of threads are in it.

    Attributes:
        closed: Nothing more is done.
    """

    closed = False

    def __enter__(self) -> None:
        if self.closed:
            raise ShelfError("it is closed")

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raised = FullError if error.errno in FULL else ShelfError
            raise raised(reason_of(error)) from error


def _belongs(name: str, directory: str) -> bool:
    return serial_of(name) is not None and block_directory(name) == directory
