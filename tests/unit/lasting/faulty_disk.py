"""A disk that fails, does things by halves, or ends the process, at chosen operations."""

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from kvtier.server.lasting.disk import Disk, Entry, Space

T = TypeVar("T")
FAULTS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EDQUOT)


class Crash(BaseException):
    """The process ends here: nothing that it does afterwards has any effect."""


@dataclass(frozen=True)
class Fault:
    """An operation fails.

    Attributes:
        code: The error's number.
        done: Whether the operation took effect all the same.
    """

    code: int
    done: bool = False


def fine(operation: str, number: int) -> Fault | None:
    """Let every operation succeed."""
    return None


class FaultyDisk:
    """A disk on another one.

    Attributes:
        plan: Asked before each operation, by its name and number from 0 on; returns how it fails.
        crash_at: The number of the operation in which the process ends; a write is done by half.
        most_bytes: How many bytes one write or read moves at most.
        operations: The names of the operations so far.
    """

    def __init__(
        self, disk: Disk, plan: Callable[[str, int], Fault | None] = fine, crash_at: int = -1
    ) -> None:
        self._disk = disk
        self.plan = plan
        self.crash_at = crash_at
        self.most_bytes = 1 << 30
        self.operations: list[str] = []
        self._crashed = False

    def create(self, path: str) -> int:
        return self._do("create", lambda: self._disk.create(path), undo=self._disk.close)

    def write(self, file: int, parts: Sequence[memoryview]) -> int:
        half = sum(map(len, parts)) // 2
        return self._do(
            "write",
            lambda: self._disk.write(file, _first(parts, self.most_bytes)),
            by_half=lambda: self._disk.write(file, _first(parts, half)),
        )

    def sync(self, file: int) -> None:
        self._do("sync", lambda: self._disk.sync(file))

    def open(self, path: str) -> int:
        return self._do("open", lambda: self._disk.open(path), undo=self._disk.close)

    def read(self, file: int, parts: Sequence[memoryview], position: int) -> int:
        some = _first(parts, self.most_bytes)
        return self._do("read", lambda: self._disk.read(file, some, position))

    def measure(self, file: int) -> int | None:
        return self._do("measure", lambda: self._disk.measure(file))

    def close(self, file: int) -> None:
        # As the kernel does at the end of a process, and where closing fails.
        self._disk.close(file)
        self._do("close", lambda: None)

    def exists(self, path: str) -> bool:
        return self._do("exists", lambda: self._disk.exists(path))

    def rename(self, old: str, new: str) -> None:
        self._do("rename", lambda: self._disk.rename(old, new))

    def unlink(self, path: str) -> None:
        self._do("unlink", lambda: self._disk.unlink(path))

    def entries(self, path: str) -> list[Entry]:
        return self._do("entries", lambda: self._disk.entries(path))

    def make_directory(self, path: str) -> None:
        self._do("make_directory", lambda: self._disk.make_directory(path))

    def sync_directory(self, path: str) -> None:
        self._do("sync_directory", lambda: self._disk.sync_directory(path))

    def space(self) -> Space:
        return self._do("space", self._disk.space)

    def _do(
        self,
        operation: str,
        act: Callable[[], T],
        *,
        undo: Callable[[T], None] | None = None,
        by_half: Callable[[], object] | None = None,
    ) -> T:
        if self._crashed:
            raise Crash
        number = len(self.operations)
        self.operations.append(operation)
        if number == self.crash_at:
            self._crashed = True
            if by_half is not None:
                by_half()
            raise Crash
        fault = self.plan(operation, number)
        if fault is None:
            return act()
        if fault.done:
            with suppress(OSError):
                result = act()
                if undo is not None:
                    undo(result)
        raise OSError(fault.code, os.strerror(fault.code))


def _first(parts: Sequence[memoryview], most: int) -> list[memoryview]:
    """Return the first bytes of parts."""
    some = []
    for part in parts:
        some.append(part[:most])
        most -= len(some[-1])
    return some
