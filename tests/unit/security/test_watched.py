"""Files that are read again when they change."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kvtier.server.security.watched import SecretFileError, Watched
from tests.certificates import replace


class Reader:
    """Reads a file, and counts how often."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.times = 0

    def __call__(self) -> str:
        self.times += 1
        text = self.path.read_text() if self.path.exists() else "broken: gone"
        if text.startswith("broken"):
            raise SecretFileError(self.path, text)
        return text


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(replace(tmp_path / "file", b"first"))


def watched(reader: Reader) -> Watched[str]:
    return Watched("words", [reader.path], reader, SecretFileError)


def test_a_file_that_stays_is_read_once(reader: Reader) -> None:
    """A look costs no more than asking for its times."""
    words = watched(reader)

    assert [words.look() for _ in range(5)] == [False] * 5
    assert (words.value, reader.times) == ("first", 1)


def test_a_change_is_read_once_the_file_is_left_alone(reader: Reader) -> None:
    """A file that is written in pieces is not read in between."""
    words = watched(reader)
    replace(reader.path, b"second, half")
    looks = [words.look()]
    replace(reader.path, b"second, whole")
    looks += [words.look() for _ in range(3)]

    assert looks == [False, False, True, False]
    assert (words.value, reader.times) == ("second, whole", 2)


@pytest.mark.parametrize("text", [b"broken", None])
def test_a_broken_change_is_told_once_and_changes_nothing(
    reader: Reader, text: bytes | None
) -> None:
    """The log names file and reason; a good file that follows is taken."""
    words = watched(reader)
    if text is None:
        reader.path.unlink()
    else:
        replace(reader.path, text)
    with capture_logs() as logs:
        assert not any(words.look() for _ in range(5))
    assert words.value == "first"
    replace(reader.path, b"third")
    words.look()

    assert words.look()
    assert words.value == "third"
    assert [line["log_level"] for line in logs] == ["warning"]
    assert str(reader.path) in logs[0]["problem"]


def test_the_first_value_must_be_good(reader: Reader) -> None:
    """There is no last good one to keep."""
    replace(reader.path, b"broken")

    with pytest.raises(SecretFileError):
        watched(reader)


def test_what_becomes_of_use_without_a_change_is_taken(reader: Reader) -> None:
    """A file that may be read now, or a certificate whose time has come, looks as before."""
    words = watched(reader)
    replace(reader.path, b"second")
    reader.path.chmod(0)
    reader.path, hidden = reader.path.with_name("not there"), reader.path
    words._paths = [hidden]
    looks = [words.look() for _ in range(3)]
    hidden.chmod(0o600)
    reader.path = hidden

    assert looks == [False] * 3
    assert words.look()
    assert words.value == "second"
    assert not words.look()
