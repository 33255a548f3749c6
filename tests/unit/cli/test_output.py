"""What the renderers write, for each format."""

import io
import json
from datetime import UTC, datetime

import pytest

from kvtier.cli.options import Settings
from kvtier.cli.output import Column, printing
from kvtier.cli.output.json_printer import JsonLinesPrinter, JsonPrinter
from kvtier.cli.output.table import TablePrinter, field_lines, table_lines
from kvtier.cli.output.times import age, span

COLUMNS = (
    Column("NAME", lambda r: r["name"]),
    Column("BLOCKS", lambda r: str(r["blocks"]), right=True),
)
ONE, TWO = {"name": "gpu0", "blocks": 12}, {"name": "host-memory", "blocks": 3400}


def test_a_table_is_aligned() -> None:
    """Texts stand left, numbers right, and lines have no trailing blanks."""
    out = io.StringIO()
    printer = TablePrinter(out, COLUMNS)

    printer.write([ONE, TWO])
    printer.close(whole=True)

    assert out.getvalue() == ("NAME         BLOCKS\ngpu0             12\nhost-memory    3400\n")


def test_a_table_can_go_without_titles() -> None:
    """--no-headers leaves the titles out, also of an empty table."""
    full, empty = io.StringIO(), io.StringIO()

    TablePrinter(full, COLUMNS, titles=False).write([ONE])
    TablePrinter(empty, COLUMNS, titles=False).close(whole=True)

    assert full.getvalue() == "gpu0      12\n"
    assert empty.getvalue() == ""


def test_a_long_table_keeps_the_widths_of_its_first_batch() -> None:
    """Titles come once, and a wider cell later shifts only its own line."""
    out = io.StringIO()
    printer = TablePrinter(out, COLUMNS)

    printer.write([ONE])
    printer.write([TWO])
    printer.write([ONE])

    assert out.getvalue() == "NAME  BLOCKS\ngpu0      12\nhost-memory    3400\ngpu0      12\n"


def test_text_from_elsewhere_cannot_steer_the_terminal() -> None:
    """Control characters are shown escaped."""
    lines = table_lines(COLUMNS, [{"name": "a\x1b[2J\nb", "blocks": 1}], titles=False)

    assert lines == ["a\\x1b[2J\\nb       1"]
    assert field_lines([("n", "\x07")]) == ["n  \\x07"]


def test_json_is_one_document() -> None:
    """Batches of a list make one array, and an empty list is []."""
    out, empty = io.StringIO(), io.StringIO()
    printer = JsonPrinter(out)

    printer.write([ONE])
    printer.write([TWO])
    printer.close(whole=True)
    JsonPrinter(empty).close(whole=True)

    assert json.loads(out.getvalue()) == [ONE, TWO]
    assert out.getvalue() == (
        '[\n {"name": "gpu0", "blocks": 12},\n {"name": "host-memory", "blocks": 3400}\n]\n'
    )
    assert empty.getvalue() == "[]\n"


def test_a_single_thing_is_a_json_object() -> None:
    """What is no list is no array."""
    out = io.StringIO()
    printer = JsonPrinter(out)

    printer.one(ONE, [])
    printer.close(whole=True)

    assert json.loads(out.getvalue()) == ONE


def test_json_stays_valid_when_the_command_fails() -> None:
    """An array that was begun is closed; where nothing came, nothing is written."""
    begun, nothing = io.StringIO(), io.StringIO()
    printer = JsonPrinter(begun)

    printer.write([ONE])
    printer.close(whole=False)
    JsonPrinter(nothing).close(whole=False)

    assert json.loads(begun.getvalue()) == [ONE]
    assert nothing.getvalue() == ""


def test_json_lines_are_an_object_each() -> None:
    """Each record is a line of its own, and an empty list is no line."""
    out = io.StringIO()
    printer = JsonLinesPrinter(out)

    printer.write([ONE, TWO])
    printer.close(whole=True)

    assert [json.loads(line) for line in out.getvalue().splitlines()] == [ONE, TWO]


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("table", "NAME  BLOCKS\ngpu0      12\n"),
        ("json", '[\n {"name": "gpu0", "blocks": 12}\n]\n'),
        ("jsonl", '{"name": "gpu0", "blocks": 12}\n'),
    ],
)
def test_the_format_is_chosen_by_name(
    output: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`-o` picks the renderer, and all go to stdout."""
    with printing(Settings(output=output), COLUMNS) as printer:
        printer.write([ONE])

    assert capsys.readouterr() == (text, "")


def test_the_document_is_closed_on_the_way_out_of_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A failure in the middle of a listing leaves whole JSON on stdout."""

    def fail() -> None:
        with printing(Settings(output="json"), COLUMNS) as printer:
            printer.write([ONE])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()

    assert json.loads(capsys.readouterr().out) == [ONE]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (-3, "0s"), (59, "59s"), (60, "1m"), (3599, "60m"), (7200, "2h"), (90000, "1d")],
)
def test_a_time_is_told_in_its_largest_unit(seconds: float, text: str) -> None:
    """Ages are short words."""
    assert span(seconds) == text


def test_an_age_counts_from_a_timestamp() -> None:
    """The age of a proto3 JSON timestamp is told; without one there is none."""
    now = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)

    assert age("2026-01-01T00:00:00Z", now) == "5m"
    assert age(None, now) == ""
