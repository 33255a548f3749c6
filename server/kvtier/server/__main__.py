"""Run a node: `python -m kvtier.server`."""

from kvtier.server.main import command

command(prog_name="kvtier serve")
