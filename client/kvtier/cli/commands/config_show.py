"""`kvtier config show`."""

from pathlib import Path

import click

from kvtier.cli.becoming import become, configuration, with_file
from kvtier.cli.options import Settings, pass_settings


@click.command()
@configuration
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), help="The format.")
@pass_settings
def command(settings: Settings, /, *, server: str, file: Path | None, output: str | None) -> None:
    """Show every setting, and where it came from.

    FILE is the YAML file. The KVTIER_ variables of the environment win over it, as they do for a
    node. The YAML is a configuration file with all defaults filled in, each value with its origin
    as a comment. JSON has the origins of the values that were given beside them. A configuration
    that is wrong is told as `kvtier config check` does.
    """
    wish = "--show-json" if (output or settings.output) == "json" else "--show"
    become(server, wish, *with_file(file))
