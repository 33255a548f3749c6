"""Milliseconds from just before a store is made readable until a follower has its hashes.

Idle is one store of 16 blocks each 20 ms, under load one each 2 ms after a batch of 32 events. Ours
has the bookkeeping of the probe's store in it; theirs begins where the event is made.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

from benchmarks.events import table, teams
from benchmarks.events.options import Options
from benchmarks.events.worker import Team, Workers

FOLLOWERS = (1, 16)
_PACES = {"idle": (250, 0.02, 0), "16,500 events/s": (2500, 0.002, 1)}


def measure(options: Options) -> None:
    """Measure ours and theirs at each pace and number of followers, and print a table."""
    rows = list(chain.from_iterable(_rows(count, options) for count in options.some(FOLLOWERS)))
    table.show("Latency, ms", ("followers", "pace", "", "p50", "p99", "worst"), rows)


def _rows(followers: int, options: Options) -> Iterator[Sequence[str]]:
    with Workers() as workers:
        running = {"ours": teams.ours(workers, followers)}
        if options.vllm:
            running["theirs"] = teams.theirs(workers, options.vllm, followers)
        for name, pace in _PACES.items():
            seen: dict[str, list[float]] = {side: [] for side in running}
            for _ in range(options.turns):
                for side, team in running.items():
                    seen[side] += _round(team, options.scaled(pace[0]), *pace[1:])
            for side, some in seen.items():
                marks = [table.percentile(some, percent) for percent in (50, 99, 100)]
                yield (str(followers), name, side, *(f"{mark:.2f}" for mark in marks))


def _round(team: Team, probes: int, interval: float, load: int) -> list[float]:
    for follower in team.followers:
        follower.tell("latencies", probes)
    team.source.ask("pace", probes, interval, load)
    answers = [follower.answer() for follower in team.followers]
    return [(came - made) / 1e6 for pairs in answers for made, came in pairs]
