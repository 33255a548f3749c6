"""At a terminal: colours, tables that fit, lists that are drawn over."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from .terminals import on_terminal

RED = b"\x1b[31m"


@pytest.fixture(name="dead")
def _dead() -> Iterator[str]:
    """An address where nobody listens, and nobody else can while the test runs."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize(
    ("options", "environment", "coloured"),
    [
        ((), {}, True),
        ((), {"NO_COLOR": "1"}, False),
        ((), {"TERM": "dumb"}, False),
        (("--color", "never"), {}, False),
        (("--color", "always"), {"NO_COLOR": "1"}, True),
    ],
)
def test_a_node_that_is_gone_is_red_on_a_terminal(
    dead: str, options: tuple[str, ...], environment: dict[str, str], coloured: bool
) -> None:
    """Unless NO_COLOR, the terminal or an option says otherwise; the text is there all the same."""
    arguments = ("get", "nodes", "-e", dead, "--timeout", 5, *options)
    with on_terminal(*arguments, columns=120, environment=environment) as terminal:
        code = terminal.end()

    assert code == 4
    assert any("unreachable" in line for line in terminal.lines)
    assert (RED in terminal.raw) is coloured
    assert (b"\x1b" in terminal.raw) is coloured


def test_a_pipe_has_no_colours_unless_asked_for(start_cli: Any, dead: str) -> None:
    """Also where the environment is that of a terminal."""
    plain = start_cli("get", "nodes", "-e", dead, TERM="xterm")
    asked = start_cli("get", "nodes", "-e", dead, "--color", "always")

    assert b"\x1b" not in plain.communicate()[0]
    assert RED in asked.communicate()[0]


def test_a_watched_list_is_drawn_in_place_and_fits(cli: Any, node: Any) -> None:
    """What changes changes where it stands, long rows are cut, and Ctrl-C ends it quietly."""
    watch = ("get", "tiers", "-w", "--interval", 0.1, "-e", node.endpoint)
    with on_terminal(*watch, columns=40, lines=6) as terminal:
        terminal.until(lambda: terminal.lines[2].startswith("node-a  cpu0"))
        first = terminal.lines
        put = ("put", "-", "-n", "t", "--block-bytes", 4, "--tier", "cpu0", "-e", node.endpoint)
        with on_terminal("get", "blocks", "-w", "--interval", 0.1, "-e", node.endpoint) as blocks:
            blocks.until(lambda: blocks.lines[0].startswith("NODE"))
            assert cli(*put, stdin=b"aaaabbbb").code == 0
            blocks.until(lambda: blocks.lines[2].startswith("node-a  cpu0  t"))
            blocks.press(b"\x03")
            assert blocks.end() == 130
        drawn = terminal.raw.count(b"\x1b[3A")
        terminal.until(lambda: terminal.raw.count(b"\x1b[3A") > drawn + 1)
        later = terminal.lines
        terminal.press(b"\x03")
        code = terminal.end()

    assert first[0].startswith("NODE    TIER  MEDIUM  DEVICE")
    assert max(map(len, first)) == 40
    assert later == first
    assert code == 130
    assert b"Traceback" not in terminal.raw
    assert terminal.lines[:3] == first[:3]
    assert not terminal.screen.cursor.hidden


def test_a_watched_list_shows_no_more_rows_than_lines(cli: Any, node: Any) -> None:
    """Thousands of blocks do not scroll the terminal away."""
    put = ("put", "-", "-n", "t", "--block-bytes", 4, "--tier", "cpu0", "-e", node.endpoint)
    assert cli(*put, stdin=b"".join(n.to_bytes(4, "big") for n in range(3000))).code == 0

    watch = ("get", "blocks", "-w", "--interval", 0.1, "-e", node.endpoint)
    with on_terminal(*watch, columns=60, lines=8) as terminal:
        terminal.until(lambda: terminal.raw.count(b"\x1b[7A") > 2)
        # A picture may have come in part.
        terminal.until(lambda: terminal.lines[0].startswith("NODE") and terminal.lines[6])

        assert terminal.lines[0].startswith("NODE")
        assert [line.split()[1] for line in terminal.lines[1:7]] == ["cpu0"] * 6
        assert terminal.lines[7] == ""


def test_a_node_that_goes_and_comes_is_told_below_the_list(
    start_node: Any, node: Any, dead: str
) -> None:
    """Who cannot be reached is named in place, and takes no other row away."""
    watch = ("get", "nodes", "-w", "--interval", 0.1, "-e", node.endpoint, "-e", dead)
    with on_terminal(*watch, columns=100, lines=10) as terminal:
        terminal.until(lambda: terminal.lines[3].startswith("error: "))

        assert terminal.lines[1].startswith("node-a")
        assert "unreachable" in terminal.lines[2]
        assert terminal.lines[3].startswith(f"error: {dead}: cannot be reached (UNAVAILABLE)")
