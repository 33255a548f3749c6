"""`kvtier describe`."""

import click

from kvtier.cli.lazy import Entry, LazyGroup

_ENTRIES = {"block": Entry("describe_block", "Tell where a block is, and who holds leases on it.")}


@click.group(cls=LazyGroup, entries=_ENTRIES)
def command() -> None:
    """Tell everything about one block."""
