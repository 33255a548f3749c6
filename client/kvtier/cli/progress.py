"""Progress of long work, for a person at a terminal only."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr while the block runs; nothing where stderr is no terminal.

    Args:
        what: What goes on.
        total: How many steps there will be; None shows no bar either.

    Yields:
        A function to call with the number of steps done since the last call.
    """
    if total is None or not sys.stderr.isatty():
        yield lambda _steps: None
        return
    with click.progressbar(
        length=total,
        label=what,
        file=sys.stderr,
        show_pos=True,
        update_min_steps=max(1, total // 200),
    ) as bar:
        yield bar.update
