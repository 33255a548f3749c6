"""The `kvtier` command: what there is, and where each command lives."""

import os
import sys
from collections.abc import Sequence

import click

from kvtier.cli.completing import complete
from kvtier.cli.exit import conclude
from kvtier.cli.lazy import Entry, LazyGroup
from kvtier.cli.options import Settings, global_options

_LOOK, _CHANGE, _RUN = "Look", "Change", "Run"
_ENTRIES = {
    "get": Entry("get", "List nodes, tiers, namespaces or blocks.", _LOOK),
    "describe": Entry("describe", "Tell everything about one node or block.", _LOOK),
    "lookup": Entry("lookup", "Tell how long a prefix of a chain each tier holds.", _LOOK),
    "watch": Entry("watch", "Follow the events of nodes.", _LOOK),
    "ping": Entry(
        "ping", "Measure round trips to nodes and proxies, and tell whether they are ready.", _LOOK
    ),
    "top": Entry("top", "Show live what nodes and tiers do.", _LOOK),
    "diff": Entry("diff", "Tell which blocks only one of two nodes holds.", _LOOK),
    "check": Entry("check", "Compare what events tell with what nodes list.", _LOOK),
    "put": Entry("put", "Store a file as a chain of blocks.", _CHANGE),
    "load": Entry("load", "Read blocks into a file or stdout.", _CHANGE),
    "copy": Entry("copy", "Copy or move blocks from tier to tier.", _CHANGE),
    "delete": Entry("delete", "Remove blocks.", _CHANGE),
    "clear": Entry("clear", "Remove every block of a tier.", _CHANGE),
    "delete-namespace": Entry(
        "delete_namespace", "Remove a namespace and all its blocks.", _CHANGE
    ),
    "drain": Entry("drain", "Take a node out of service.", _CHANGE),
    "pin": Entry("pin", "Keep blocks for long, whatever comes.", _CHANGE),
    "unpin": Entry("unpin", "Take pins back.", _CHANGE),
    "serve": Entry("serve", "Run a node.", _RUN),
    "proxy": Entry(
        "proxy", "Run a proxy: one address for the events and lookups of many nodes.", _RUN
    ),
    "config": Entry("config", "Check or show the configuration of a node or a proxy.", _RUN),
    "replay": Entry("replay", "Replay a trace of requests and count.", _RUN),
    "bench": Entry("bench", "Measure lookups, stores and loads of a node by a small load.", _RUN),
    "demo": Entry("demo", "Show two nodes and a proxy at work.", _RUN),
    "completion": Entry(
        "completion", "Print what makes a shell complete kvtier's commands and options.", _RUN
    ),
    "version": Entry("version", "Tell the version.", _RUN),
}
_EPILOG = """\b
Exit codes: 0 done, 1 failed, 2 used wrongly, 3 not found, 4 out of reach or too late,
5 not allowed, 6 a difference was found, 130 interrupted.
"""


@click.group(
    cls=LazyGroup,
    entries=_ENTRIES,
    epilog=_EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@global_options
@click.pass_context
def kvtier(ctx: click.Context, /, **values: object) -> None:
    """See and manage where the KV-cache blocks of an LLM cluster are.

    The options below may also stand after the command. Data goes to stdout, everything else to
    stderr.
    """
    ctx.obj = Settings.of_group(ctx, values)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, `sys.argv` by default, and return its exit code."""
    # gRPC writes what it thinks of a handshake to stderr, where each error is one line.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    args = list(sys.argv[1:] if arguments is None else arguments)
    completed = complete(kvtier)
    if completed is not None:
        return completed
    try:
        with kvtier.make_context("kvtier", args) as ctx:
            kvtier.invoke(ctx)
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - a defect is raised again
        return conclude(error)
    return 0
