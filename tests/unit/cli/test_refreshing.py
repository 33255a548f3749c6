"""Listing once, and again and again."""

import pytest

from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.options import Settings
from kvtier.cli.output import Column
from kvtier.cli.refreshing import Listing, Round, Writer, keep_showing, show_once

SETTINGS = Settings(output="jsonl")
LOST = CommandError("there:1", "cannot be reached", code=ExitCode.UNREACHABLE)


def listing(*rounds: Round) -> Listing:
    """A list of one record, that goes as the rounds say and then fails with LookupError."""
    left = list(rounds)

    async def ask(writer: Writer, most: int | None) -> Round:
        if not left:
            raise LookupError
        writer.write([{"a": 1}])
        return left.pop(0)

    return Listing([Column("A", lambda r: str(r["a"]))], lambda _r: "", ask)


async def test_a_single_look_tells_its_notes_and_fails_with_its_errors(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What came is on stdout, and a note on stderr, before the error ends the command."""
    with pytest.raises(CommandError, match="cannot be reached"):
        await show_once(SETTINGS, listing(Round([LOST], ["there:1: more to come"])))

    assert capsys.readouterr() == ('{"a": 1}\n', "note: there:1: more to come\n")


async def test_a_watch_goes_on_when_a_later_look_fails(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It tells who is missing, and asks again."""
    with pytest.raises(LookupError):
        await keep_showing(SETTINGS, listing(Round(), Round([LOST], failed=True), Round()), 0)

    assert capsys.readouterr() == ('{"a": 1}\n', "error: there:1: cannot be reached\n")


async def test_a_watch_whose_first_look_reaches_nobody_fails() -> None:
    """As without --watch."""
    with pytest.raises(CommandError, match="cannot be reached"):
        await keep_showing(SETTINGS, listing(Round([LOST], failed=True)), 0)
