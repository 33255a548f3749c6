"""`kvtier diff`."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from kvtier.cli.comparing.parts import Parts
from kvtier.cli.comparing.sides import Side, Wanted, list_both
from kvtier.cli.comparing.telling import Counts, block_records
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column, Printer, printing
from kvtier.cli.run import run

_PAGE = 1000
_BLOCKS = (
    Column("ONLY ON", lambda r: r["only_on"]),
    Column("NAMESPACE", lambda r: r["namespace_name"]),
    Column("TIER", lambda r: r["tier"]),
    Column("GROUP", lambda r: str(r["group"]), right=True),
    Column("SCOPE", lambda r: r["scope"][:12]),
    Column("HASH", lambda r: r["block_hash"]),
)


def _counts(nodes: Sequence[str], *, by_tier: bool) -> list[Column]:
    columns = [
        Column("NAMESPACE", lambda r: r["namespace_name"]),
        Column("FINGERPRINT", lambda r: r["namespace"][:12]),
        Column("TIER", lambda r: r["tier"]),
        Column(f"ONLY {nodes[0]}", lambda r: str(r["only_a"]), right=True),
        Column(f"ONLY {nodes[1]}", lambda r: str(r["only_b"]), right=True),
        Column("BOTH", lambda r: str(r["both"]), right=True),
    ]
    return [column for column in columns if by_tier or column.title != "TIER"]


@click.command()
@click.argument("node_a")
@click.argument("node_b")
@click.option("-n", "--namespace", help="Only this namespace, by name.")
@click.option("--tier", "tiers", multiple=True, help="Only this tier; may be repeated.")
@click.option("--by-tier", is_flag=True, help="Compare tier by tier, by their names.")
@click.option("--blocks", is_flag=True, help="List the blocks that only one has, not counts.")
@common_options
@pass_settings
def command(
    settings: Settings, /, *, node_a: str, node_b: str, blocks: bool, **wanted: Any
) -> None:
    """Tell which blocks only one of two nodes holds.

    NODE_A and NODE_B are endpoints, HOST:PORT, or the ids of nodes whose endpoints -e names; each
    may be a proxy. A block is the same where namespace, group, scope and hash are, in whichever
    tiers it is unless --by-tier says so. The exit code is 6 when they differ.

    Both are listed whole, a page at a time, into files in the temporary directory: some 140 bytes
    for each block, and little memory. Nodes that are at work are listed at slightly different
    moments.
    """
    nodes = (node_a, node_b)
    with TemporaryDirectory(prefix="kvtier-diff-") as folder, Parts(Path(folder)) as parts:
        sides = run(list_both(settings, nodes, Wanted(**wanted), parts))
        _note_names(sides)
        columns = _BLOCKS if blocks else _counts(nodes, by_tier=wanted["by_tier"])
        with printing(settings, columns) as printer:
            alone = _print(printer, parts, sides, blocks=blocks)
    if any(alone):
        what = f"{alone[0]} blocks are only on {node_a}, and {alone[1]} only on {node_b}"
        raise CommandError("kvtier", what, code=ExitCode.DIFFERENCE)


def _print(
    printer: Printer, parts: Parts, sides: Sequence[Side], *, blocks: bool
) -> tuple[int, int]:
    """Print the blocks or the counts; return how many blocks only one has."""
    names = sides[0].namespaces | sides[1].namespaces
    counts = Counts()
    for difference in parts.differences():
        counts.add(difference)
        if blocks:
            records = block_records(difference, [side.name for side in sides], names)
            while page := list(islice(records, _PAGE)):
                printer.write(page)
    if not blocks:
        printer.write(counts.records(names))
    return counts.alone


def _note_names(sides: Sequence[Side]) -> None:
    """Say on stderr which names stand for two descriptions: those blocks can never be the same."""
    first, second = ({name: key for key, name in side.namespaces.items()} for side in sides)
    for name in sorted(first.keys() & second.keys()):
        if first[name] != second[name]:
            what = f"namespace {name} is described differently on both, so that no block is equal"
            click.echo(f"note: {what}", err=True)
