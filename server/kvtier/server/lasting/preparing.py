"""Making a directory ready to be a shelf, or finding out that it is something else."""

from contextlib import suppress
from pathlib import Path

import structlog

from kvtier.server.lasting.disk import FULL, Disk
from kvtier.server.lasting.layout import (
    BLOCK_DIRECTORIES,
    BLOCKS,
    FORMAT,
    FORMAT_LINE,
    LOCK,
    NAMESPACES,
    NEW_FORMAT,
    PARTIAL,
)
from kvtier.server.lasting.shelf import DamagedError, MissingError
from kvtier.server.lasting.whole import read_start, write_new
from kvtier.server.stores.base import StoreError

_log = structlog.get_logger(__name__)

# What may be there before the format is: the last is on every new file system of its own.
_NOT_FOREIGN = frozenset({LOCK, NEW_FORMAT, "lost+found"})
_CHECK = f"{PARTIAL}/check"


def refuse_foreign(disk: Disk, directory: Path) -> None:
    """Find out whether a directory without a format has files of somebody else.

    Raises:
        StoreError: When it has.
        OSError: When it cannot be read.
    """
    names = {entry.name for entry in disk.entries("")}
    foreign = sorted(names - _NOT_FOREIGN)
    if foreign and FORMAT not in names:
        raise StoreError(
            f"{directory} is no tier's directory and has other files, such as {foreign[0]!r}; "
            "give an empty directory, or a new one"
        )


def prepare(disk: Disk, directory: Path) -> None:
    """Make the directories of a shelf and remove what unfinished writes left.

    It takes no longer when there are many blocks.

    Raises:
        StoreError: When the directory is something else, or of another format.
        OSError: When it cannot be read and written.
    """
    _check_format(disk, directory)
    for name in (PARTIAL, BLOCKS, NAMESPACES):
        disk.make_directory(name)
    disk.sync_directory("")
    _refuse_odd_directories(disk, directory)
    _remove_leftovers(disk, directory)
    _check_writing(disk)


def _check_format(disk: Disk, directory: Path) -> None:
    try:
        line, _ = read_start(disk, FORMAT, len(FORMAT_LINE) + 1)
    except MissingError:
        refuse_foreign(disk, directory)
        _write_format(disk)
    except DamagedError as error:
        raise StoreError(f"{directory}/{FORMAT} {error}; give another directory") from error
    else:
        if line != FORMAT_LINE:
            raise StoreError(
                f"{directory} has blocks of another format, {_text(line)}, than this version's, "
                f"{_text(FORMAT_LINE)}; give another directory, or remove what is there"
            )


def _text(line: bytes) -> str:
    return repr(line.decode(errors="replace").removesuffix("\n"))


def _write_format(disk: Disk) -> None:
    # It is flushed before anything else is made, or a power cut could leave blocks without it.
    with suppress(FileNotFoundError):
        disk.unlink(NEW_FORMAT)
    write_new(disk, NEW_FORMAT, [FORMAT_LINE])
    disk.rename(NEW_FORMAT, FORMAT)
    disk.sync_directory("")


def _refuse_odd_directories(disk: Disk, directory: Path) -> None:
    # The path of a block goes through these without a further look whether one is a link.
    ours = {PARTIAL, BLOCKS, NAMESPACES, *BLOCK_DIRECTORIES}
    for above in ("", f"{BLOCKS}/"):
        for entry in disk.entries(above.rstrip("/")):
            path = f"{above}{entry.name}"
            if path in ours and not entry.directory:
                raise StoreError(f"{directory}/{path} is no directory; remove it")


def _remove_leftovers(disk: Disk, directory: Path) -> None:
    leftovers = [entry.name for entry in disk.entries(PARTIAL) if not entry.directory]
    for name in leftovers:
        disk.unlink(f"{PARTIAL}/{name}")
    if leftovers:
        _log.info("unfinished writes removed", directory=str(directory), files=len(leftovers))


def _check_writing(disk: Disk) -> None:
    try:
        write_new(disk, _CHECK, [], sync=False)
        disk.unlink(_CHECK)
    except OSError as error:
        # A full disk is no reason not to start: room comes back by deletes.
        if error.errno not in FULL:
            raise
