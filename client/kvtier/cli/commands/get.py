"""`kvtier get`."""

import click

from kvtier.cli.lazy import Entry, LazyGroup

_ENTRIES = {
    "nodes": Entry("get_nodes", "List nodes, with what each tier holds."),
    "tiers": Entry("get_tiers", "List tiers, with use and counters."),
    "namespaces": Entry("get_namespaces", "List registered namespaces."),
    "blocks": Entry("get_blocks", "List readable blocks."),
}


@click.group(cls=LazyGroup, entries=_ENTRIES)
def command() -> None:
    """List nodes, tiers, namespaces or blocks."""
