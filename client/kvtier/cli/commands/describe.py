"""`kvtier describe`."""

import click

from kvtier.cli.lazy import Entry, LazyGroup

_ENTRIES = {
    "node": Entry("describe_node", "Tell everything that a node says of itself and its tiers."),
    "block": Entry("describe_block", "Tell where a block is, and who holds leases on it."),
}


@click.group(cls=LazyGroup, entries=_ENTRIES)
def command() -> None:
    """Tell everything about one node or block."""
