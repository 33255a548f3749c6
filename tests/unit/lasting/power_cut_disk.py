"""A disk in memory that forgets, in a power cut, what was not flushed."""

import errno
import os
import random
from collections.abc import Sequence
from itertools import count
from typing import TypeAlias

from kvtier.server.lasting.disk import Entry, Space


class File:
    """A file: its bytes, and whether all of them were flushed."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.flushed = False


class Directory:
    """A directory: what is in it, and what was when it was last flushed."""

    def __init__(self) -> None:
        self.now: dict[str, Node] = {}
        self.flushed: dict[str, Node] = {}


Node: TypeAlias = File | Directory


def _error(code: int) -> OSError:
    return OSError(code, os.strerror(code))


class PowerCutDisk:
    """As unkind as a disk may be: each thing that was not flushed is kept or lost by itself.

    Give `attach` to the shelf as its disk. The tree survives the shelf; `cut` ends all that was
    open.
    """

    def __init__(self) -> None:
        self._root = Directory()
        self._open: dict[int, File | Directory] = {}
        self._numbers = count(1000)
        self.free = 1 << 40

    def attach(self, root: int) -> "PowerCutDisk":
        """Return this disk, which has no need of the real directory."""
        return self

    def cut(self, choose: random.Random) -> None:
        """Cut the power: what was not flushed is there, gone or spoilt."""
        self._open.clear()
        self._root = _after_cut(self._root, choose)

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all that is in it, behind the shelf's back."""
        directory, name = self._find_parent(path)
        del directory.now[name]

    def create(self, path: str) -> int:
        directory, name = self._find_parent(path)
        if name in directory.now:
            raise _error(errno.EEXIST)
        directory.now[name] = File()
        return self.open(path)

    def write(self, file: int, parts: Sequence[memoryview]) -> int:
        node = self._open[file]
        assert isinstance(node, File)
        data = b"".join(parts)
        node.bytes += data
        node.flushed = False
        return len(data)

    def sync(self, file: int) -> None:
        node = self._open[file]
        assert isinstance(node, File)
        node.flushed = True

    def open(self, path: str) -> int:
        file = next(self._numbers)
        self._open[file] = self._find(path)
        return file

    def read(self, file: int, parts: Sequence[memoryview], position: int) -> int:
        node = self._open[file]
        assert isinstance(node, File)
        start = position
        for part in parts:
            data = node.bytes[position : position + len(part)]
            part[: len(data)] = data
            position += len(data)
        return position - start

    def measure(self, file: int) -> int | None:
        node = self._open[file]
        return len(node.bytes) if isinstance(node, File) else None

    def close(self, file: int) -> None:
        self._open.pop(file, None)

    def exists(self, path: str) -> bool:
        try:
            self._find(path)
        except FileNotFoundError:
            return False
        return True

    def rename(self, old: str, new: str) -> None:
        source, old_name = self._find_parent(old)
        target, new_name = self._find_parent(new)
        node = self._find(old)
        target.now[new_name] = node
        del source.now[old_name]

    def unlink(self, path: str) -> None:
        directory, name = self._find_parent(path)
        if isinstance(self._find(path), Directory):
            raise _error(errno.EISDIR)
        del directory.now[name]

    def entries(self, path: str) -> list[Entry]:
        found = self._find_directory(path).now
        return [
            Entry(name, isinstance(node, File), isinstance(node, Directory))
            for name, node in list(found.items())
        ]

    def make_directory(self, path: str) -> None:
        directory, name = self._find_parent(path)
        directory.now.setdefault(name, Directory())

    def sync_directory(self, path: str) -> None:
        directory = self._find_directory(path)
        directory.flushed = dict(directory.now)

    def space(self) -> Space:
        return Space(4096, self.free)

    def _find(self, path: str) -> Node:
        node: Node = self._root
        for name in filter(None, path.split("/")):
            if not isinstance(node, Directory):
                raise _error(errno.ENOTDIR)
            if name not in node.now:
                raise _error(errno.ENOENT)
            node = node.now[name]
        return node

    def _find_directory(self, path: str) -> Directory:
        node = self._find(path)
        if not isinstance(node, Directory):
            raise _error(errno.ENOTDIR)
        return node

    def _find_parent(self, path: str) -> tuple[Directory, str]:
        directory, _, name = path.rpartition("/")
        return self._find_directory(directory), name


def _after_cut(directory: Directory, choose: random.Random) -> Directory:
    """Return a directory as it is found when the power is back."""
    left = Directory()
    for name in sorted(directory.now.keys() | directory.flushed.keys()):
        node = choose.choice((directory.now, directory.flushed)).get(name)
        if isinstance(node, Directory):
            left.now[name] = _after_cut(node, choose)
        elif node is not None:
            left.now[name] = _file_after_cut(node, choose)
    left.flushed = dict(left.now)
    return left


def _file_after_cut(file: File, choose: random.Random) -> File:
    left = File()
    length = len(file.bytes)
    spoilt = (b"", file.bytes[: choose.randint(0, length)], bytes(length), file.bytes)
    left.bytes += file.bytes if file.flushed else choose.choice(spoilt)
    left.flushed = True
    return left
