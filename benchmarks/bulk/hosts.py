"""Between hosts: blocks of 2 MiB over loopback TCP, by ours and by others.

A block counts as put when the server has it, and as got when it is in the client's memory. Ours
computes the checksum of each block on both sides both ways, and the others none.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from benchmarks.bulk import client
from benchmarks.bulk.client import Cost
from benchmarks.bulk.contender import module
from benchmarks.bulk.options import Options
from benchmarks.events import table
from benchmarks.events.worker import Worker, Workers

BLOCK_BYTES = 2 << 20
BATCHES = (1, 8, 32)
CONTENDERS = ("raw_tcp", "redis_tcp", "arrow_flight", "kvtier_stream")
LIMIT, PEERS = "raw_tcp", ("redis_tcp", "arrow_flight")
TO_LIMIT, TO_PEERS = 0.6, 0.9
_COLUMNS = (
    *("", "", "GB/s", "to TCP", f"(aim {TO_LIMIT})", "to peers", f"(aim {TO_PEERS})"),
    *("client s/GB", "server s/GB"),
)
# Blocks of one measurement, however they are batched.
_BLOCKS = 128

Costs = Mapping[tuple[str, str], Sequence[Cost]]


def measure(options: Options) -> None:
    """Measure every size of batches, and print a table of each."""
    names = [name for name in CONTENDERS if _is_there(name)]
    with Workers() as workers:
        clients = {name: workers.start(client.main, name) for name in names}
        for batch in options.some(BATCHES):
            costs = _take_turns(clients, batch, options)
            table.show(
                f"Between hosts, batches of {batch} (CPU is of client and server)",
                _COLUMNS,
                _rows(costs, names),
            )


def _is_there(name: str) -> bool:
    lacks = module(name).missing()
    if lacks:
        print(f"Without {module(name).NAME}: {lacks}.")
    return not lacks


def _take_turns(clients: Mapping[str, Worker], batch: int, options: Options) -> Costs:
    costs = defaultdict[tuple[str, str], list[Cost]](list)
    for name, each in clients.items():
        if not each.ask("use", batch, BLOCK_BYTES):
            raise RuntimeError(f"{name} gives other bytes than it was given")
    for turn in range(options.turns + 1):
        for way in ("put", "get"):
            for name, each in clients.items():
                cost = each.ask(way, options.calls(_BLOCKS // batch))
                if turn:  # the first fills caches
                    costs[way, name].append(cost)
    return costs


def _rows(costs: Costs, names: Sequence[str]) -> Iterator[Sequence[str]]:
    for way in ("put", "get"):
        rates = {name: [cost.rate for cost in costs[way, name]] for name in names}
        peers = [rates[name] for name in PEERS if name in rates]
        best = max(peers, key=median, default=[])
        for name in names:
            mine = costs[way, name]
            yield (
                way,
                module(name).NAME,
                table.middle(rates[name], ".2f"),
                table.ratio(rates[name], rates[LIMIT]),
                "",
                table.ratio(rates[name], best),
                "",
                table.middle([cost.client / cost.moved * 1e9 for cost in mine], ".2f"),
                table.middle([cost.servers / cost.moved * 1e9 for cost in mine], ".2f"),
            )
