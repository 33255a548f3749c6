"""Members by a file."""

from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from kvtier.client import InvalidArgumentError
from kvtier.client.proxy.membership import watched_file

from .looking import Lookout, looking


def watching(path: Path) -> Callable[[Lookout], AsyncGenerator[tuple[str, ...]]]:
    return lambda lookout: watched_file(path, sleep=lookout.time.sleep, tell=lookout.told.append)


def write(path: Path, text: str | bytes) -> None:
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def remove(path: Path) -> None:
    path.unlink()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that names one endpoint."""
    path = tmp_path / "members"
    path.write_text("a:1\n")
    return path


async def test_a_file_that_was_written_again_is_read_again(path: Path) -> None:
    """A change counts when two looks found the same; nothing comes while there is none."""
    async with looking(watching(path)) as lookout:
        await lookout.again(3)
        write(path, "b:1\na:1\n")
        await lookout.again()
        between = list(lookout.lists)
        await lookout.again(3)

        assert between == [("a:1",)]
        assert lookout.lists == [("a:1",), ("b:1", "a:1")]


async def test_a_file_that_was_replaced_is_read_again(path: Path) -> None:
    """A rename puts another file in its place."""
    async with looking(watching(path)) as lookout:
        new = path.with_name("new")
        new.write_text("b:1\n")
        new.replace(path)
        await lookout.again(2)

        assert lookout.lists == [("a:1",), ("b:1",)]


async def test_a_mounted_config_map_that_changed_is_read_again(tmp_path: Path) -> None:
    """Its files are links through a folder's link, which is swapped for another's."""
    path = tmp_path / "members"
    for version, text in (("v1", "a:1\n"), ("v2", "a:1\nb:1\n")):
        folder = tmp_path / version
        folder.mkdir()
        (folder / "members").write_text(text)
    (tmp_path / "..data").symlink_to("v1")
    path.symlink_to(Path("..data", "members"))

    async with looking(watching(path)) as lookout:
        (tmp_path / "..data_tmp").symlink_to("v2")
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")
        (tmp_path / "v1" / "members").unlink()
        await lookout.again(2)

        assert lookout.lists == [("a:1",), ("a:1", "b:1")]
        assert lookout.told == []


async def test_half_a_file_is_not_taken_for_a_whole_one(path: Path) -> None:
    """What a look finds in the middle of writing is left alone, and is no trouble."""
    async with looking(watching(path)) as lookout:
        for half in ("", "b:1", "b:1\nc:1\nd:"):
            write(path, half)
            await lookout.again()
        write(path, "b:1\nc:1\nd:1\n")
        await lookout.again(2)

        assert lookout.lists == [("a:1",), ("b:1", "c:1", "d:1")]
        assert lookout.told == []


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is empty; a line '# none' says that there is nobody"),
        (b"b:1\nnonsense\n", "line 2: endpoint must be host:port"),
        (b"\xff:1\n", "it is not UTF-8"),
        (b"b:1\n" * (1 << 18) + b"#", "it is larger than 1048576 bytes"),
    ],
    ids=["empty", "malformed", "not text", "large"],
)
async def test_a_broken_file_keeps_the_last_list(path: Path, data: bytes, why: str) -> None:
    """Why is told once, with the file's name."""
    async with looking(watching(path)) as lookout:
        write(path, data)
        await lookout.again(5)

        assert lookout.lists == [("a:1",)]
        assert len(lookout.told) == 1
        assert lookout.told[0].startswith(f"{path}: {why}")
        assert lookout.told[0].endswith("; the last nodes stay")


async def test_a_missing_file_keeps_the_last_list(path: Path) -> None:
    """A file that is away for a while removes nobody; when it is back its list counts."""
    async with looking(watching(path)) as lookout:
        remove(path)
        await lookout.again(3)
        write(path, "b:1\n")
        await lookout.again(2)

        assert lookout.lists == [("a:1",), ("b:1",)]
        assert lookout.told == [f"{path}: No such file or directory; the last nodes stay"]


async def test_a_file_that_comes_later_is_the_first_list(tmp_path: Path) -> None:
    """Until there is a list nothing is made up, and the first good one counts at once."""
    path = tmp_path / "members"
    async with looking(watching(path)) as lookout:
        write(path, "nonsense")
        await lookout.again()
        before = list(lookout.lists)
        write(path, "a:1")
        await lookout.again()

        assert before == []
        assert lookout.lists == [("a:1",)]
        assert len(lookout.told) == 2


async def test_a_file_may_say_that_there_is_nobody(path: Path) -> None:
    """A comment alone is a list of nobody."""
    async with looking(watching(path)) as lookout:
        write(path, "# none\n")
        await lookout.again(2)

        assert lookout.lists == [("a:1",), ()]


async def test_only_another_list_is_a_change(path: Path) -> None:
    """Another comment or another form of the same list is none."""
    async with looking(watching(path)) as lookout:
        write(path, "# the same\n\na:1  # once more\na:1\n")
        await lookout.again(3)

        assert lookout.lists == [("a:1",)]


def test_an_interval_that_makes_no_sense_is_refused(path: Path) -> None:
    """The error comes from the call, and quotes the value."""
    with pytest.raises(InvalidArgumentError, match="interval must be more than 0 s; got 0"):
        watched_file(path, 0)
