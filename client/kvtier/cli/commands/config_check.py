"""`kvtier config check`."""

from pathlib import Path

import click

from kvtier.cli.becoming import become, configuration, with_file


@click.command()
@configuration
def command(server: str, file: Path | None) -> None:
    """Check a configuration, and start nothing.

    FILE is the YAML file. The KVTIER_ variables of the environment win over it, as they do for a
    node. What is wrong is told in one line, with exit code 2. The files of tls and auth are read;
    neither directories nor servers are looked at.
    """
    become(server, "--check", *with_file(file))
