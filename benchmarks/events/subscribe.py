"""Seconds until a new follower of a full node is in sync, and what others feel meanwhile.

The blocks are stored through the tier itself, by its whole bookkeeping, before anybody follows.
Another follower takes a store of 16 blocks each 5 ms all along. The limits are what we ask for at
a million blocks.
"""

from collections.abc import Sequence

from benchmarks.events import follower, table, teams
from benchmarks.events.options import Options
from benchmarks.events.worker import Team, Worker, Workers

_BLOCKS = 1_000_000
_SECONDS, _P99_MS = 3.0, 50.0
_INTERVAL = 0.005
_KINDS = {"nobody": None, "hashes as bytes": False, "into a BlockIndex": True}


def measure(options: Options) -> None:
    """Let a new follower come, of each kind in turns, and print a table."""
    blocks = options.scaled(_BLOCKS)
    with Workers() as workers:
        team = teams.ours_holding(workers, blocks, 1)
        newcomer = workers.start(follower.main, team.source.ask("address"))
        newcomer.ask("ready")
        seconds: dict[str, list[float]] = {name: [] for name in _KINDS}
        lags: dict[str, list[float]] = {name: [] for name in _KINDS}
        for _ in range(options.turns):
            for name, index in _KINDS.items():
                took, some = _round(team, newcomer, index, options)
                seconds[name].append(took)
                lags[name] += some
    rows = [_row(name, seconds[name], lags[name]) for name in _KINDS]
    columns = ("comes", "in sync after s", "limit", "others' p50 ms", "p99 ms", "limit", "worst ms")
    table.show(f"A new follower of a node with {blocks:,} blocks", columns, rows)


def _round(
    team: Team, newcomer: Worker, index: bool | None, options: Options
) -> tuple[float, list[float]]:
    """Return the seconds to be in sync, and the others' milliseconds meanwhile."""
    probes = options.scaled(int(2 * _SECONDS / _INTERVAL))
    (other,) = team.followers
    other.tell("latencies", probes)
    team.source.tell("pace", probes, _INTERVAL, 0)
    begun, ended = newcomer.ask("sync", index) if index is not None else (0, 1 << 63)
    team.source.answer()
    meanwhile = [pair for pair in other.answer() if begun <= pair[1] and pair[0] <= ended]
    return (ended - begun) / 1e9, [(came - made) / 1e6 for made, came in meanwhile]


def _row(name: str, seconds: Sequence[float], lags: Sequence[float]) -> Sequence[str]:
    alone = name == "nobody"
    p50, p99, worst = (table.percentile(lags, percent) for percent in (50, 99, 100))
    return (
        name,
        "-" if alone else table.middle(seconds, ".2f"),
        "-" if alone else f"{_SECONDS:.0f}",
        f"{p50:.2f}",
        f"{p99:.2f}",
        f"{_P99_MS:.0f}",
        f"{worst:.1f}",
    )
