"""A shelf of files in a directory of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvtier.server.lasting.files import FileShelf


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "shelf"


@pytest.fixture
def shelf(root: Path) -> Iterator[FileShelf]:
    shelf = FileShelf(root, sync="none")
    yield shelf
    shelf.close()
