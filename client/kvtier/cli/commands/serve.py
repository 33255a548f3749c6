"""`kvtier serve`."""

import click

from kvtier.cli.becoming import NODE, become


@click.command(context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Run a node.

    Every argument is the server's: `kvtier serve --help` lists them.
    """
    become(NODE, *arguments)
