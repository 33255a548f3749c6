"""Showing a list again and again."""

import io
import os
from typing import Any

import pyte
import pytest

from kvtier.cli.output import Column
from kvtier.cli.output.json_printer import JsonLinesPrinter
from kvtier.cli.output.panes import Changes, InPlace, _steady_cells, _steady_record
from kvtier.cli.output.screen import Screen, cut

COLUMNS = (
    Column("NAME", lambda r: r["name"], tone=lambda r: "red" if r["n"] > 8 else ""),
    Column("N", lambda r: str(r["n"]), right=True),
    Column("AGE", lambda r: r.get("age", ""), ages=True),
)


def row(name: str, n: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "n": n, **more}


class Rows(list[Any]):
    """A printer that keeps what it is given."""

    def write(self, records: Any) -> None:
        self.extend(records)

    def taken(self) -> list[Any]:
        rows = list(self)
        self.clear()
        return rows


class Terminal(io.StringIO):
    """A terminal's window of 20 columns and 6 lines."""

    def fileno(self) -> int:
        return -1

    def shown(self) -> list[str]:
        screen = pyte.Screen(20, 6)
        pyte.Stream(screen).feed(self.getvalue().replace("\n", "\r\n"))
        return [line.rstrip() for line in screen.display]


@pytest.fixture(name="window")
def _window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda _fd: os.terminal_size((20, 6)))


def test_only_what_changed_is_printed() -> None:
    """A round like the one before is silent, and a value that comes back is news again."""
    rows: Any = Rows()
    changes = Changes(rows, _steady_record)
    printed = []

    for n in (1, 1, 2, 1):
        changes.write([row("a", n), row("b", 0)])
        changes.end([])
        printed.append(rows.taken())

    assert printed == [[row("a", 1), row("b", 0)], [], [row("a", 2)], [row("a", 1)]]


@pytest.mark.parametrize("steady", [_steady_record, _steady_cells(COLUMNS)])
def test_the_passing_of_time_is_no_change(steady: Any) -> None:
    """Ages and times left count neither in a table nor deep in a record."""
    rows: Any = Rows()
    changes = Changes(rows, steady)

    for age in ("1s", "2s"):
        changes.write([row("a", 1, age=age)])
        changes.end([])

    assert rows == [row("a", 1, age="1s")]
    deep = [_steady_record({"x": [{"lease": {"age": age, "owner": "o"}}]}) for age in "12"]
    assert deep[0] == deep[1]


def test_a_table_does_not_repeat_rows_that_look_the_same() -> None:
    """A field that the table does not show is no news there, but is in JSON."""
    for steady, count in ((_steady_cells(COLUMNS), 1), (_steady_record, 2)):
        rows: Any = Rows()
        changes = Changes(rows, steady)

        for hidden in (1, 2):
            changes.write([row("a", 1, hidden=hidden)])
            changes.end([])

        assert len(rows) == count


def test_remarks_are_said_once_until_they_change(capsys: pytest.CaptureFixture[str]) -> None:
    """A node that stays away is not told in every round; one that goes again is."""
    changes = Changes(JsonLinesPrinter(io.StringIO()), _steady_record)

    for remarks in (["error: a"], ["error: a"], ["error: a", "error: b"], [], ["error: a"]):
        changes.end(remarks)

    assert capsys.readouterr().err.splitlines() == ["error: a", "error: b", "error: a"]


@pytest.mark.usefixtures("window")
def test_a_screen_is_drawn_over() -> None:
    """Each round replaces the one before, also when it is shorter, and nothing else is touched."""
    out = Terminal("$ kvtier\n")
    out.seek(0, io.SEEK_END)
    table = InPlace(Screen(out), COLUMNS, titles=True, colour=False)

    table.write([row("a", 1), row("b", 2)])
    table.end([])
    first = out.shown()
    table.write([row("c", 3)])
    table.end([])

    assert first == ["$ kvtier", "NAME  N  AGE", "a     1", "b     2", "", ""]
    assert out.shown() == ["$ kvtier", "NAME  N  AGE", "c     3", "", "", ""]


@pytest.mark.usefixtures("window")
def test_a_screen_shows_no_more_than_fits() -> None:
    """Rows are cut to the window, remarks have their place, and the next round still fits."""
    out = Terminal()
    table = InPlace(Screen(out), COLUMNS, titles=True, colour=True)

    for n in (1, 9):
        table.write([row(f"{i}{'x' * 30}", n) for i in range(30)])
        table.end(["error: no"])

    rows = [f"{i}{'x' * 19}" for i in range(3)]
    assert out.shown() == ["NAME", *rows, "error: no", ""]
    assert table.room == 6


def test_a_line_is_cut_by_what_is_seen_of_it() -> None:
    """What sets colours has no width, and is set back after the cut."""
    assert cut("\x1b[31mabc\x1b[0mdef", 2) == "\x1b[31mab\x1b[0m"
    assert cut("abc", 5) == "abc"
