"""The command that runs a node."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from kvtier.server.config import NodeConfig
from kvtier.server.lifecycle import TierServer, check_policies
from kvtier.server.observing.logs import configure_logs
from kvtier.server.process.inspecting import inspect_options, settings_to_serve_with
from kvtier.server.process.running import run, serve_until_stopped
from kvtier.server.serving.serving import check_files


@click.command(name="serve", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", type=click.Path(path_type=Path), help="The YAML file.")
@click.option("--node-id", help="The node's stable id.  [default: the host name]")
@click.option("--listen", help="The address, HOST:PORT.  [default: 127.0.0.1:7600]")
@click.option(
    "--insecure", is_flag=True, default=None, help="Allow more than loopback without TLS."
)
@click.option("--log-level", help="debug, info, warning or error.  [default: info]")
@inspect_options
def command(config: Path | None, *, inspect: str | None, **options: object) -> None:
    """Run a node: a tier server that holds blocks and tells what it holds.

    Without a configuration it holds one host-memory tier of 1 GiB, on loopback. Settings come from
    the YAML file, from KVTIER_ environment variables over it, and from these options over both.
    """
    settings = settings_to_serve_with(NodeConfig, config, options, inspect, _checked)
    configure_logs(settings.log_level)
    run(serve(settings))


async def serve(config: NodeConfig) -> None:
    """Serve until SIGTERM or SIGINT; a second one hurries."""
    server = TierServer(config)
    await serve_until_stopped(server, lambda: _announce(server))


def _checked(config: NodeConfig) -> str:
    check_policies(config)
    check_files(config)
    tiers = [{"name": tier.name, "medium": tier.medium} for tier in config.tiers]
    return _told("checked", config.node_id, config.listen, tiers)


def _announce(server: TierServer) -> None:
    """Say on standard output that the node serves, and where: one line of JSON, for scripts."""
    tiers = [{"name": tier.name, "device": tier.store.device} for tier in server.node.tiers]
    sys.stdout.write(_told("serving", server.node.node_id, server.address, tiers))
    sys.stdout.flush()


def _told(event: str, node_id: str, listen: str, tiers: Sequence[Mapping[str, str]]) -> str:
    told = {"event": event, "node_id": node_id, "listen": listen, "tiers": tiers}
    return json.dumps(told) + "\n"
