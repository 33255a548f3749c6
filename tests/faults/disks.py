"""The directory of a tier of files as an operator sees it, and a small disk to have it on."""

import re
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from kvtier.server.lasting.layout import FORMAT, LOCK
from tests.contract.filed import block_files

_DESCRIPTION = re.compile("namespaces/[0-9a-f]{64}")
# Whoever enters the namespaces of the process that waits there finds the disk.
_HOLD = 'mount -t tmpfs -o size="$1" tmpfs "$0" && echo held && exec sleep 600'


class SmallDisk(NamedTuple):
    """A file system of its own, which only some processes have where others see nothing.

    Attributes:
        prefix: What the command of a process begins with that has it.
        seen: Where this process finds what lies on it.
    """

    prefix: tuple[str, ...]
    seen: Path


@contextmanager
def small_disk(directory: Path, size: str) -> Iterator[SmallDisk]:
    """Have a disk of a size, such as 8m, in a directory that is there."""
    if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets no user mount a tmpfs of its own (unshare -rm)")
    command = ["unshare", "-rm", "sh", "-c", _HOLD, str(directory), size]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            number = str(holder.pid)
            prefix = ("nsenter", "-t", number, "-U", "-m", "--preserve-credentials", "--")
            yield SmallDisk(prefix, Path(f"/proc/{number}/root{directory}"))
        finally:
            holder.kill()


def bytes_of(files: Iterable[Path]) -> int:
    """Return what files take of a disk; those that go meanwhile take nothing."""
    total = 0
    for file in files:
        with suppress(FileNotFoundError):
            total += file.stat().st_blocks * 512
    return total


def strangers(directory: Path) -> list[str]:
    """Return files that are neither blocks nor what a tier's directory has beside them."""
    blocks = set(block_files(directory))
    files = {path for path in directory.rglob("*") if not path.is_dir()} - blocks
    names = {str(path.relative_to(directory)) for path in files} - {FORMAT, LOCK}
    return sorted(name for name in names if not _DESCRIPTION.fullmatch(name))
