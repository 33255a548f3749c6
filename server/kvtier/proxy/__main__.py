"""Run a proxy: `python -m kvtier.proxy`."""

from kvtier.proxy.main import command

command(prog_name="kvtier proxy")
