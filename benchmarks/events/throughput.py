"""Events a second from the source to the last of its followers, which has every hash as bytes.

An event is a chain of 16 hashes of 32 bytes. Left out on both sides is what comes before: a node's
bookkeeping (benchmarks/bookkeeping.py has it) and calls, and an engine's scheduler. Theirs and
"hashes" make the events of a list of hashes. "table" makes them as a store does, of slots in the
tier's table, where it finds the runs first; theirs has nothing like it here. A node tells chains of
one scope by one BlockStored with a run for each; "apart" is "table" with a scope, and so a
BlockStored, for each chain. Both sides take turns and lose nothing: the node's log is large enough
for a round, and so are vLLM's queues.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.events import table, teams
from benchmarks.events.options import Options
from benchmarks.events.probes import CHAIN
from benchmarks.events.worker import Team, Workers

FOLLOWERS = (1, 4, 16)
SIZES = (1, 32, 256)
AIMS = {(32, 1): 0.9, (32, 4): 0.7, (32, 16): 0.5, (1, 1): 2.0, (1, 4): 2.0, (1, 16): 2.0}
_WAYS = ("theirs", "hashes", "table", "apart")
_EVENTS = {1: 32_000, 32: 128_000, 256: 128_000}
_LOG = {"max_batches": 1 << 18, "max_bytes": 1 << 28}


class Rate(NamedTuple):
    """How a round went.

    Attributes:
        events: Events a second.
        source: Microseconds of CPU of the source, for each event.
        follower: Microseconds of CPU of each follower, for each event.
        missing: Hashes that did not arrive, over all followers.
    """

    events: float
    source: float
    follower: float
    missing: int


def measure(options: Options) -> None:
    """Measure every number of followers and size of batches, and print a table of each."""
    for followers in options.some(FOLLOWERS):
        with Workers() as workers:
            ours = teams.ours(workers, followers, **_LOG)
            theirs = teams.theirs(workers, options.vllm, followers) if options.vllm else None
            rows = [
                row
                for size in SIZES
                for row in _rows(size, followers, _take_turns(ours, theirs, size, options))
            ]
        title = f"Throughput, followers: {followers} (microseconds are of CPU, for each event)"
        columns = ("batch of", "", "events/s", "to theirs", "aim", "source µs", "follower µs",
                   "missing")  # fmt: skip
        table.show(title, columns, rows)


def _take_turns(
    ours: Team, theirs: Team | None, size: int, options: Options
) -> dict[str, list[Rate]]:
    rates: dict[str, list[Rate]] = defaultdict(list)
    events = options.scaled(_EVENTS[size])
    for turn in range(options.turns + 1):
        for name in _WAYS:
            team = theirs if name == "theirs" else ours
            if team is not None and not (name == "apart" and size == 1):
                rate = _round(team, max(1, events // size), size, name)
                if turn:  # the first fills caches
                    rates[name].append(rate)
    return rates


def _round(team: Team, batches: int, size: int, how: str) -> Rate:
    hashes = batches * size * CHAIN
    before = team.source.ask("cpu"), sum(team.ask_followers("cpu"))
    for follower in team.followers:
        follower.tell("count", hashes)
    begun = team.source.ask("publish", batches, size, how)
    answers = [follower.answer() for follower in team.followers]
    after = team.source.ask("cpu"), sum(team.ask_followers("cpu"))
    events, crowd = batches * size, len(team.followers)
    return Rate(
        events / (max(end for _, end in answers) - begun) * 1e9,
        (after[0] - before[0]) / events * 1e6,
        (after[1] - before[1]) / events / crowd * 1e6,
        sum(hashes - seen for seen, _ in answers),
    )


def _rows(size: int, followers: int, rates: dict[str, list[Rate]]) -> Iterator[Sequence[str]]:
    theirs = [rate.events for rate in rates["theirs"]]
    for name in _WAYS:
        mine = rates[name]
        if mine:
            aim = AIMS.get((size, followers)) if name != "theirs" else None
            yield (
                str(size),
                name,
                table.middle([rate.events for rate in mine]),
                table.ratio([rate.events for rate in mine], theirs),
                f"{aim}" if aim else "-",
                table.middle([rate.source for rate in mine], ".1f"),
                table.middle([rate.follower for rate in mine], ".1f"),
                str(sum(rate.missing for rate in mine)),
            )
