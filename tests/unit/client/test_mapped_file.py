"""A tier's file is mapped only when it is the one that the node told."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvtier.client.mapped.file import NotMappableError, open_shared
from kvtier.server.stores.host import HostStore
from kvtier.v1.mapping_pb2 import SharedFile

SIZE = 64 << 10


@pytest.fixture
def store(tmp_path: Path) -> Iterator[HostStore]:
    store = HostStore(tmp_path, "node", "cpu0", SIZE)
    yield store
    store.close()


def told(store: HostStore, **changes: object) -> SharedFile:
    """What a node tells of its store, with some changes."""
    facts = {
        "name": store.path.name,
        "directory": str(store.path.parent),
        "cookie": store.cookie,
        "data_offset": store.file_bytes - SIZE,
        "size_bytes": store.file_bytes,
        "lock_offset": store.file_bytes + 1,
    }
    return SharedFile(**(facts | changes))  # type: ignore[arg-type]


def test_both_sides_see_the_same_bytes(store: HostStore) -> None:
    """What one writes into a slot the other reads; slot 0 begins a page."""
    file = open_shared(told(store), None)

    store.write(100, b"from the node")
    file.view[4096 : 4096 + 15] = b"from the client"

    assert bytes(file.view[100:113]) == b"from the node"
    assert store.read(4096, 15) == b"from the client"
    assert (len(file.view), file.address % 4096) == (SIZE, 0)
    file.close()


def test_its_lock_lasts_until_the_last_view_is_gone(store: HostStore) -> None:
    """A view is a way to write."""
    file = open_shared(told(store), None)
    lock = store.file_bytes + 1

    held = [store.is_locked(lock)]
    view = file.view[10:20]
    file.close()
    held.append(store.is_locked(lock))
    view.release()
    del file

    assert held == [True, True]
    assert not store.is_locked(lock)


@pytest.mark.parametrize(
    "change",
    [
        {"cookie": bytes(32)},
        {"cookie": b""},
        {"size_bytes": SIZE},
        {"name": "kvtier-none"},
        {"name": ""},
        {"name": ".."},
        {"name": "a\0b"},
        {"data_offset": 8},
    ],
    ids=str,
)
def test_a_file_that_is_not_as_told_is_not_mapped(
    store: HostStore, change: dict[str, object]
) -> None:
    """Nor is a name with a path in it looked for."""
    with pytest.raises(NotMappableError):
        open_shared(told(store, **change), None)


def test_a_name_leads_nowhere_else(store: HostStore, tmp_path: Path) -> None:
    """Neither through a path nor through a link, though the file is the right one."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "link").symlink_to(store.path)
    inside = str(tmp_path / "sub")

    for change in ({"name": f"../{store.path.name}"}, {"name": "link"}):
        with pytest.raises(NotMappableError):
            open_shared(told(store, directory=inside, **change), None)


def test_what_is_no_regular_file_is_not_opened(store: HostStore, tmp_path: Path) -> None:
    """Opening a pipe would wait for its other end."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(NotMappableError):
        open_shared(told(store, name="pipe"), None)


def test_a_lock_that_somebody_has_is_not_shared(store: HostStore) -> None:
    """Each mapping has a number, and so a byte, of its own."""
    first = open_shared(told(store), None)

    with pytest.raises(NotMappableError):
        open_shared(told(store), None)
    first.close()


def test_the_callers_own_directory_goes_before_the_nodes(store: HostStore, tmp_path: Path) -> None:
    """In another container the same memory may be elsewhere."""
    elsewhere = told(store, directory="/nowhere")

    with pytest.raises(NotMappableError, match="/nowhere or /dev/shm"):
        open_shared(elsewhere, None)
    open_shared(elsewhere, tmp_path).close()
    with pytest.raises(NotMappableError):
        open_shared(told(store), Path("/nowhere"))
