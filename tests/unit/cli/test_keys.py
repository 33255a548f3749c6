"""Block keys as people write them."""

import io
from pathlib import Path

import click
import pytest

from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.keys import Keys, parse_hex, read_hashes
from kvtier.cli.replay import replay_namespace
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.namespaces import problem

A, B = b"\xaa" * 8, b"\xbb" * 8


@pytest.mark.parametrize("text", ["aa" * 8, "AA" * 8])
def test_a_hash_is_hexadecimal_in_any_case(text: str) -> None:
    """Upper and lower case are the same hash."""
    assert parse_hex(text) == A


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has 0 bytes"),
        ("aabb", "has 2 bytes; 8 to 64 are expected"),
        ("a" * 17, "is not hexadecimal"),
        ("zz" * 8, "is not hexadecimal"),
        ("0x" + "aa" * 8, "is not hexadecimal"),
        ("aa" * 65, "has 65 bytes"),
        ("\x00" * 16, "is not hexadecimal"),
    ],
)
def test_anything_else_is_refused_with_the_value(text: str, why: str) -> None:
    """The error shows the value, cut to a readable length, and what is expected."""
    with pytest.raises(ValueError, match=why) as caught:
        parse_hex(text)

    assert len(str(caught.value)) < 120


def test_hashes_come_from_arguments_then_from_a_file(tmp_path: Path) -> None:
    """A file holds hashes parted by white space."""
    path = tmp_path / "hashes"
    path.write_text(f"{A.hex()}\n  {B.hex()}\t{A.hex()}\n")

    assert read_hashes((B,), path) == (B, A, B, A)


def test_hashes_come_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--file -` reads a pipe."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{A.hex()} {B.hex()}"))

    assert read_hashes((), Path("-")) == (A, B)


def test_no_hash_at_all_is_wrong_use(tmp_path: Path) -> None:
    """An empty file is not taken for a chain."""
    path = tmp_path / "hashes"
    path.write_text("\n")

    with pytest.raises(click.UsageError, match="no hash given"):
        read_hashes((), path)


def test_hashes_must_have_the_namespaces_width() -> None:
    """Two hashes of wrong widths that add up to a right length are not passed on."""
    keys = Keys("llama", 0, b"", (A, b"\xbb" * 24))

    with pytest.raises(CommandError, match=r"aa has 8 bytes; .* have 16") as caught:
        keys.packed(16)

    assert caught.value.code == ExitCode.USAGE


@pytest.mark.parametrize("width", [7, 8, 64, 65])
def test_a_hash_is_as_wide_as_a_namespace_may_say(width: int) -> None:
    """The command line takes the widths that nodes accept, and no others."""
    described = Namespace()
    described.CopyFrom(replay_namespace(64))
    described.hash_width = width
    taken = True

    try:
        parse_hex("ab" * width)
    except ValueError:
        taken = False

    assert taken == (problem(described, 64) is None)
