"""Seconds until a fresh proxy over four full nodes knows all they hold, and what stores feel.

The proxy is one in a library; and a process that starts then, with a follower whose view counts.

Each node takes a store of 16 blocks each 5 ms all along. How much longer a round of them takes
while the proxy joins is the slowdown. The limits are what we ask for at a million blocks a node.
"""

from collections.abc import Sequence

from benchmarks.events import joiner, node, table
from benchmarks.events.options import Options
from benchmarks.events.worker import Worker, Workers

_NODES = 4
_BLOCKS = 1_000_000
_SECONDS, _SLOWDOWN = 15.0, 1.2
_INTERVAL, _STORES = 0.005, 2000


def measure(options: Options) -> None:
    """Let a proxy join again and again, and print a table."""
    blocks, stores = options.scaled(_BLOCKS), options.scaled(_STORES)
    with Workers() as workers:
        nodes = [workers.start(node.main, blocks, {}) for _ in range(_NODES)]
        proxy = workers.start(joiner.main, [each.ask("address") for each in nodes])
        rows = [
            _row(told, [_round(nodes, proxy, how, stores) for _ in range(options.turns)])
            for how, told in (("join", "library"), ("follow", "process"))
        ]
    columns = ("proxy", "one in sync after s", "all", "limit", "stores slower by", "limit")
    table.show(f"A fresh proxy over {_NODES} nodes with {blocks:,} blocks each", columns, rows)


def _row(told: str, rounds: Sequence[tuple[float, float, float]]) -> Sequence[str]:
    firsts, lasts, slowdowns = zip(*rounds, strict=True)
    return (told, table.middle(firsts, ".2f"), table.middle(lasts, ".2f"), f"{_SECONDS:.0f}",
            table.middle(slowdowns, ".2f"), f"{_SLOWDOWN}")  # fmt: skip


def _round(
    nodes: Sequence[Worker], proxy: Worker, how: str, stores: int
) -> tuple[float, float, float]:
    alone = _pace(nodes, stores)
    for each in nodes:
        each.tell("pace", stores, _INTERVAL, 0)
    first, last = proxy.ask(how)
    together = max(each.answer() for each in nodes)
    return first, last, together / alone


def _pace(nodes: Sequence[Worker], stores: int) -> float:
    for each in nodes:
        each.tell("pace", stores, _INTERVAL, 0)
    took: float = max(each.answer() for each in nodes)
    return took
