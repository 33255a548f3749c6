"""`kvtier check` over several rounds: what counts in the end."""

from typing import Any

import pytest

from kvtier.cli.commands import check
from kvtier.cli.exit import CommandError


class Verdict:
    """One round's verdict: an error, or none, and whether it is only that a tier recovers."""

    def __init__(self, error: str = "", *, only_recovering: bool = False) -> None:
        self.only_recovering = only_recovering
        self._error = error

    def records(self, examples: int) -> list[Any]:
        return []

    def error(self) -> CommandError | None:
        return CommandError("there:1", self._error) if self._error else None


class Nowhere:
    def write(self, records: list[Any]) -> None: ...


FINE = Verdict()
BUSY = Verdict("busy")
RECOVERING = Verdict("recovering", only_recovering=True)


@pytest.mark.parametrize(
    ("rounds", "errors"),
    [
        ([FINE], []),
        ([RECOVERING], ["recovering"]),
        ([RECOVERING, RECOVERING, FINE], []),
        ([FINE, RECOVERING], ["recovering"]),
        ([BUSY, FINE], ["busy"]),
        ([RECOVERING, BUSY, FINE], ["busy"]),
    ],
)
def test_that_a_tier_recovers_counts_only_at_the_end(rounds: list[Any], errors: list[str]) -> None:
    """Whoever waits for it is told when it is done; what could not be told otherwise stays so."""
    settings: Any = None
    options: Any = check._Options(tiers=(), namespace=None, examples=5, seconds=1.0)
    printer: Any = Nowhere()
    one = check._Check("there:1", settings, options, printer)

    for verdict in rounds:
        one._take(verdict)

    assert [error.what for error in one.errors] == errors
