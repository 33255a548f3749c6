"""When there are colours."""

import io

import pytest

from kvtier.cli.main import main
from kvtier.cli.output import Column
from kvtier.cli.output.colour import BAD, tones, wants_colour
from kvtier.cli.output.table import table_lines


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("choice", "out", "environment", "wanted"),
    [
        ("auto", Tty(), {"TERM": "xterm"}, True),
        ("auto", Tty(), {}, True),
        ("auto", Tty(), {"NO_COLOR": ""}, True),
        ("auto", Tty(), {"NO_COLOR": "1"}, False),
        ("auto", Tty(), {"TERM": "dumb"}, False),
        ("auto", io.StringIO(), {"TERM": "xterm"}, False),
        ("always", io.StringIO(), {"NO_COLOR": "1"}, True),
        ("never", Tty(), {}, False),
    ],
)
def test_colours_are_for_terminals_unless_somebody_says_otherwise(
    choice: str, out: io.StringIO, environment: dict[str, str], wanted: bool
) -> None:
    """A pipe has none, NO_COLOR takes them away, and the option wins over both."""
    assert wants_colour(choice, out, environment) is wanted


def test_only_what_needs_attention_is_coloured() -> None:
    """A cell has its colour around its padding, and the others stay as they are."""
    column = Column("STATE", lambda r: r["state"], tone=tones({"dead": BAD}, "state"))

    lines = table_lines([column], [{"state": "ready"}, {"state": "dead"}], colour=True)

    assert lines == ["STATE", "ready", "\x1b[31mdead \x1b[0m"]


def test_an_unknown_choice_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    """Told with what there is."""
    code = main(["--color", "blue", "version"])

    assert code == 2
    assert "'auto', 'always', 'never'" in capsys.readouterr().err
