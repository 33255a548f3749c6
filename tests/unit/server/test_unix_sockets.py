"""A server at a socket of the file system, while other threads of its process make files."""

import socket
from collections.abc import Iterator
from pathlib import Path
from stat import S_IMODE
from tempfile import TemporaryDirectory

import pytest

from kvtier.server.serving.unix_sockets import bind_socket


@pytest.fixture(name="folder")
def _folder() -> Iterator[Path]:
    """Where a socket may be: a path short enough for one."""
    with TemporaryDirectory(prefix="kvtier-") as folder:
        yield Path(folder)


def test_directories_made_meanwhile_can_be_entered(folder: Path) -> None:
    """What keeps others from the socket holds for the whole process, and costs it nothing."""
    path, other = folder / "kv.sock", folder / "of-a-tier"
    with socket.socket(socket.AF_UNIX) as server:

        def bind(_: str) -> int:
            other.mkdir()
            server.bind(str(path))
            return 0

        bind_socket(bind, f"unix:{path}", "--listen")

    assert S_IMODE(path.stat().st_mode) == 0o660
    assert S_IMODE(other.stat().st_mode) & 0o700 == 0o700
