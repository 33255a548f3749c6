"""`kvtier serve`."""

import os
import sys

import click

from kvtier.cli.nodes import require_server


@click.command(context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Run a node.

    Every argument is the server's: `kvtier serve --help` lists them.
    """
    require_server()
    sys.stdout.flush()
    os.execv(sys.executable, (sys.executable, "-m", "kvtier.server", *arguments))  # noqa: S606
