"""`kvtier config`."""

import click

from kvtier.cli.lazy import Entry, LazyGroup

_ENTRIES = {
    "check": Entry("config_check", "Check a configuration, and start nothing."),
    "show": Entry("config_show", "Show every setting, and where it came from."),
    "schema": Entry("config_schema", "Print the JSON schema of a configuration, for editors."),
}


@click.group(cls=LazyGroup, entries=_ENTRIES)
def command() -> None:
    """Check or show the configuration of a node or a proxy."""
