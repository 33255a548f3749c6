"""What a follower gets that reads nothing while events are made, and then everything there is.

Batches have one event each, and all settings are the defaults of either side. Ours tells a follower
that fell out of the log so, and sends it a snapshot: every batch has arrived or was told. Theirs
drops what its queues do not hold; a number on each later message shows the gap, if one comes.
"""

from collections.abc import Iterator, Sequence

from benchmarks.events import table, teams
from benchmarks.events.options import Options
from benchmarks.events.probes import CHAIN
from benchmarks.events.worker import Workers

_BATCHES = (50_000, 200_000)


def measure(options: Options) -> None:
    """Measure both sides for a stretch that the log holds and one that it does not."""
    rows = [row for batches in _BATCHES for row in _rows(options.scaled(batches), options)]
    columns = ("batches", "", "arrived", "told by a reset", "lost", "snapshot whole")
    table.show("A follower that reads only afterwards", columns, rows)


def _rows(batches: int, options: Options) -> Iterator[Sequence[str]]:
    with Workers() as workers:
        yield _ours(workers, batches)
        if options.vllm:
            yield _theirs(workers, options.vllm, batches)


def _ours(workers: Workers, batches: int) -> Sequence[str]:
    team = teams.ours(workers, 1)
    before, _ = team.source.ask("head")
    team.source.ask("publish", batches, 1, "hashes")
    ((arrived, told, _, whole),) = team.ask_followers("account", before, before + batches)
    return (*_row(batches, "ours", arrived, told), ("yes" if whole else "NO") if told else "-")


def _theirs(workers: Workers, path: str, batches: int) -> Sequence[str]:
    team = teams.theirs(workers, path, 1)
    team.source.ask("publish", batches, 1, "hashes")
    ((hashes, _),) = team.ask_followers("count", batches * CHAIN)
    return (*_row(batches, "theirs", hashes // CHAIN, 0), "-")


def _row(batches: int, side: str, arrived: int, told: int) -> Sequence[str]:
    counts = (arrived, told, batches - arrived - told)
    return (f"{batches:,}", side, *(f"{count / batches:.1%}" for count in counts))
