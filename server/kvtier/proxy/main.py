"""The command that runs a proxy."""

import json
import sys
from pathlib import Path

import click

from kvtier.proxy.config import ProxyConfig
from kvtier.proxy.lifecycle import ProxyServer
from kvtier.server.observing.logs import configure_logs, forward_logs
from kvtier.server.process.inspecting import inspect_options, settings_to_serve_with
from kvtier.server.process.running import run, serve_until_stopped
from kvtier.server.serving.serving import check_files


@click.command(name="proxy", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", type=click.Path(path_type=Path), help="The YAML file.")
@click.option("--node-id", help="The proxy's stable id.  [default: proxy- and the host name]")
@click.option("--primary", help="The address of the node that comes first, HOST:PORT.")
@click.option(
    "--secondary",
    "secondaries",
    multiple=True,
    help="The address of a node behind it, HOST:PORT; may be repeated, in order.",
)
@click.option("--secondaries-dns", help="NAME:PORT of the nodes behind it, asked again and again.")
@click.option(
    "--secondaries-file",
    type=click.Path(path_type=Path),
    help="A file with the nodes behind it, one HOST:PORT a line, read again when it changes.",
)
@click.option("--listen", help="The address, HOST:PORT.  [default: 127.0.0.1:7700]")
@click.option(
    "--require-primary",
    is_flag=True,
    default=None,
    help="Tell nothing of the secondaries while the primary is not in sync.",
)
@click.option(
    "--insecure", is_flag=True, default=None, help="Allow more than loopback without TLS."
)
@click.option("--log-level", help="debug, info, warning or error.  [default: info]")
@inspect_options
def command(
    config: Path | None, secondaries: tuple[str, ...], *, inspect: str | None, **options: object
) -> None:
    """Run a proxy: one address from which followers hear of many nodes.

    It follows a primary node and the secondaries behind it, tells what they tell, and answers
    lookups and listings over all of them. Settings come from the YAML file, from KVTIER_
    environment variables over it, and from these options over both.
    """
    given = {**options, "secondaries": list(secondaries) or None}
    settings = settings_to_serve_with(ProxyConfig, config, given, inspect, _checked)
    configure_logs(settings.log_level)
    forward_logs("kvtier.client")
    run(serve(settings))


async def serve(config: ProxyConfig) -> None:
    """Serve until SIGTERM or SIGINT; a second one hurries."""
    server = ProxyServer(config)
    await serve_until_stopped(server, lambda: _announce(config, server.address))


def _checked(config: ProxyConfig) -> str:
    check_files(config)
    return _told("checked", config, config.listen)


def _announce(config: ProxyConfig, listen: str) -> None:
    """Say on standard output that the proxy serves, and where: one line of JSON, for scripts."""
    sys.stdout.write(_told("serving", config, listen))
    sys.stdout.flush()


def _told(event: str, config: ProxyConfig, listen: str) -> str:
    told = {
        "event": event,
        "node_id": config.node_id,
        "listen": listen,
        "primary": config.primary,
        "secondaries": config.secondaries,
    }
    return json.dumps(told) + "\n"
