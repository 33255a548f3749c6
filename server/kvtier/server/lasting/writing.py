"""Changing what lies in a shelf's directory, so that a file is there whole or not at all."""

import errno
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import count
from typing import TypeVar

from kvtier.server.lasting.disk import Disk
from kvtier.server.lasting.layout import FORMAT, FORMAT_LINE, NAMESPACES, PARTIAL, directory_of
from kvtier.server.lasting.shelf import ShelfError, always
from kvtier.server.lasting.whole import write_new

T = TypeVar("T")

# What removing is fine with: nothing is there, or a directory, which is not ours.
_NOT_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_MOST_TRIED = 8 << 20


class Writer:
    """Writes, replaces and removes files; methods raise `OSError` when the disk fails.

    What a failed write left is removed at once, or by a later write when that fails too.

    Args:
        disk: The files.
        flushes: Whether the bytes of a file are flushed before it gets its path.
        lasts: Whether directories are flushed before a method returns.
        keep: Called before a file gets its path or a directory is made; raises when the root is
            another's by now, or was removed.
    """

    def __init__(self, disk: Disk, *, flushes: bool, lasts: bool, keep: Callable[[], None]) -> None:
        self._keep = keep
        self._disk, self._flushes, self._lasts = disk, flushes, lasts
        self._stopped = False
        self._numbers = count()
        self._leftovers: deque[str] = deque()
        # Directories that are known to outlive a power cut.
        self._settled = {"", NAMESPACES}

    def stop(self) -> None:
        """Let no file get its path any more; writes end with `ShelfError`."""
        self._stopped = True

    def add(
        self, path: str, parts: Sequence[bytes | memoryview], wanted: Callable[[], bool]
    ) -> None:
        """Write a file where nothing is; nothing is there when it fails, or is not wanted."""
        with suppress(OSError):
            self._remove_leftovers()
        if self._disk.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        try:
            self.replace(path, parts, wanted)
        except BaseException:
            self._discard(path)
            raise

    def replace(
        self,
        path: str,
        parts: Sequence[bytes | memoryview],
        wanted: Callable[[], bool] = always,
    ) -> None:
        """Write a file in place of what is there; when it fails, either may be."""
        partial = self._new_partial(path.rpartition("/")[2])
        try:
            self._write(partial, parts, sync=self._flushes)
            self._check_going(wanted)
            self._with_directory(path, lambda: self._disk.rename(partial, path))
        except BaseException:
            self._discard(partial)
            raise
        if self._lasts:
            self._settle(directory_of(path))

    def remove(self, paths: Sequence[str]) -> None:
        """Remove files, or links and the like; nothing and directories are passed over."""
        for path in paths:
            self._unlink(path)
        if self._lasts:
            # Also of files that were gone: flushing may be what failed the time before.
            self._flush(map(directory_of, paths))

    def rehearse(self, length: int) -> None:
        """Write as many bytes, or some of them, and remove them again."""
        self._keep()
        self._remove_leftovers()
        if length > self._disk.space().free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        partial = self._new_partial("probe")
        try:
            # Without a flush a disk that lost its power takes bytes for a while.
            self._write(partial, [bytes(min(length, _MOST_TRIED))], sync=True)
        finally:
            self._discard(partial)
        self._remove_leftovers()

    def _write(self, partial: str, parts: Sequence[bytes | memoryview], *, sync: bool) -> None:
        self._with_directory(partial, lambda: write_new(self._disk, partial, parts, sync=sync))

    def _new_partial(self, name: str) -> str:
        return f"{PARTIAL}/{name}-{next(self._numbers)}"

    def _check_going(self, wanted: Callable[[], bool]) -> None:
        if self._stopped:
            raise ShelfError("it is closed")
        if not wanted():
            raise ShelfError("it was given up")
        self._keep()

    def _with_directory(self, path: str, act: Callable[[], T]) -> T:
        """Do something, and again when the directory of a path had to be made first."""
        try:
            return act()
        except FileNotFoundError:
            self._keep()
            directory = directory_of(path)
            self._make_directory(directory)
            if directory == PARTIAL:
                # Somebody removed all that is here. Without its format no start takes it again.
                self.replace(FORMAT, [FORMAT_LINE])
            return act()

    def _make_directory(self, path: str) -> None:
        if path:
            self._make_directory(directory_of(path))
            self._settled.discard(path)
            self._disk.make_directory(path)

    def _settle(self, directory: str) -> None:
        self._disk.sync_directory(directory)
        if directory not in self._settled:
            self._settle(directory_of(directory))
            self._settled.add(directory)

    def _flush(self, directories: Iterable[str]) -> None:
        for directory in set(directories):
            with suppress(*_NOT_THERE):
                self._disk.sync_directory(directory)

    def _unlink(self, path: str) -> None:
        with suppress(*_NOT_THERE):
            self._disk.unlink(path)

    def _discard(self, path: str) -> None:
        try:
            self._unlink(path)
        except OSError:
            self._leftovers.append(path)

    def _remove_leftovers(self) -> None:
        # Others may take the last one meanwhile.
        with suppress(IndexError):
            while self._leftovers:
                path = self._leftovers.popleft()
                try:
                    self._unlink(path)
                except OSError:
                    self._leftovers.append(path)
                    raise
