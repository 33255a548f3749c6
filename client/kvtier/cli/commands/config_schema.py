"""`kvtier config schema`."""

import click

from kvtier.cli.becoming import become, of_which


@click.command()
@of_which
def command(server: str) -> None:
    """Print the JSON schema of a configuration, for editors.

    It knows every setting and its limits. What settings mean beside each other only
    `kvtier config check` knows.
    """
    become(server, "--schema")
