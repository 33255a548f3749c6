"""`kvtier version`."""

from importlib.metadata import version

import click

from kvtier.cli.options import Settings, output_option, pass_settings
from kvtier.cli.output import printing


@click.command()
@output_option
@pass_settings
def command(settings: Settings) -> None:
    """Tell the version."""
    record = {"version": version("kvtier"), "api": "kvtier.v1"}
    with printing(settings) as printer:
        printer.one(record, [f"kvtier {record['version']} (API {record['api']})"])
