"""`kvtier proxy`."""

import click

from kvtier.cli.becoming import PROXY, become


@click.command(context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Run a proxy: one address for the events and lookups of many nodes.

    Every argument is the proxy's: `kvtier proxy --help` lists them.
    """
    become(PROXY, *arguments)
