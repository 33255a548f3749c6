"""Directories of files, on a disk that fails, and hands that meddle with them."""

import os
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from kvtier.server.lasting.disk import Disk, RootedDisk
from kvtier.server.lasting.files import FileShelf
from kvtier.server.lasting.layout import BLOCK_DIRECTORIES, PARTIAL
from kvtier.server.lasting.record import serial_of
from kvtier.server.stores import open as opening

from .blocks import Key
from .grounds import key_of
from .storm import Storm


class Files:
    """A `Ground` of real files.

    Args:
        root: The directory of all tiers' directories.
        rng: What decides.
        sync: What blocks outlive.
    """

    troubles: Mapping[str, int] = {"fail": 3, "stall": 2, "shorten": 1}
    forgetful = forgot = False

    def __init__(
        self, root: Path, rng: random.Random, sync: Literal["none", "close", "always"]
    ) -> None:
        self._root = root
        self._random = rng
        self._sync = sync
        self._storm = Storm(rng)

    @property
    def crashed(self) -> bool:
        return self._storm.crashed

    def settings(self, tier: str) -> dict[str, Any]:
        """See `Ground`."""
        return {"directory": str(self._root / tier), "sync": self._sync}

    def disk(self, root: int) -> Disk:
        """Return what the disk below a directory really is."""
        return RootedDisk(root)

    def begin(self, patch: pytest.MonkeyPatch) -> None:
        """See `Ground`."""
        self._storm = storm = Storm(self._random, self.disk)
        patch.setattr(
            opening,
            "FileShelf",
            lambda directory, *, sync: FileShelf(directory, sync=sync, disk=storm.attach),
        )

    def trouble(self, kind: str) -> None:
        """See `Ground`."""
        getattr(self._storm, kind)()

    def calm(self) -> None:
        """See `Ground`."""
        self._storm.calm()

    def crash(self, after: int) -> None:
        """See `Ground`."""
        self._storm.crash(after)

    def harm(self, rng: random.Random, tier: str) -> set[Key]:
        """See `Ground`."""
        paths = [p for p in (self._root / tier / "blocks").rglob("*-*") if not p.is_dir()]
        plain = [path for path in paths if path.is_file() and not path.is_symlink()]
        if len(plain) < 2:
            return set()
        some = rng.sample(sorted(plain), 2)
        return rng.choice(_HARMS)(some, rng)

    def names(self, tier: str) -> set[str]:
        """See `Ground`; nothing that was not finished may lie there either."""
        root = os.open(self._root / tier, os.O_RDONLY)
        try:
            return names_on(self.disk(root))
        finally:
            os.close(root)

    def may_have_more(self) -> bool:
        """See `Ground`."""
        return False


def names_on(disk: Disk) -> set[str]:
    """Return the names of all blocks of a shelf, and of what was not finished."""
    directories = {f"blocks/{entry.name}" for entry in disk.entries("blocks")}
    names = {f"{PARTIAL}/{entry.name}" for entry in disk.entries(PARTIAL)}
    for directory in directories & set(BLOCK_DIRECTORIES):
        names |= {entry.name for entry in disk.entries(directory) if entry.plain}
    return {name for name in names if serial_of(name) is not None or name.startswith(PARTIAL)}


# What outside hands do to the first of two files; they return the blocks that are harmed.


def _remove(paths: Sequence[Path], _: random.Random) -> set[Key]:
    paths[0].unlink()
    return {key_of(paths[0].name)}


def _truncate(paths: Sequence[Path], rng: random.Random) -> set[Key]:
    os.truncate(paths[0], rng.randrange(paths[0].stat().st_size))
    return {key_of(paths[0].name)}


def _append(paths: Sequence[Path], _: random.Random) -> set[Key]:
    with paths[0].open("ab") as file:
        file.write(b"x")
    return {key_of(paths[0].name)}


def _flip(paths: Sequence[Path], rng: random.Random) -> set[Key]:
    data = bytearray(paths[0].read_bytes())
    if data:
        data[rng.randrange(min(300, len(data)) if rng.random() < 0.5 else len(data))] ^= 1
    paths[0].write_bytes(data)
    return {key_of(paths[0].name)}


def _swap(paths: Sequence[Path], _: random.Random) -> set[Key]:
    first, second = (path.read_bytes() for path in paths)
    paths[0].write_bytes(second)
    paths[1].write_bytes(first)
    return {key_of(path.name) for path in paths}


def _link(paths: Sequence[Path], _: random.Random) -> set[Key]:
    paths[0].unlink()
    paths[0].symlink_to(paths[1])
    return {key_of(paths[0].name)}


def _directory(paths: Sequence[Path], _: random.Random) -> set[Key]:
    paths[0].unlink()
    paths[0].mkdir()
    return {key_of(paths[0].name)}


def _pipe(paths: Sequence[Path], _: random.Random) -> set[Key]:
    paths[0].unlink()
    os.mkfifo(paths[0])
    return {key_of(paths[0].name)}


def _remove_directory(paths: Sequence[Path], _: random.Random) -> set[Key]:
    keys = {key_of(path.name) for path in paths[0].parent.iterdir()}
    shutil.rmtree(paths[0].parent)
    return keys


_HARMS: Sequence[Callable[[Sequence[Path], random.Random], set[Key]]] = (
    _remove,
    _truncate,
    _append,
    _flip,
    _flip,
    _flip,
    _swap,
    _link,
    _directory,
    _pipe,
    _remove_directory,
)
