"""The command that runs a node."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

import click

from kvtier.server.allocator import keep_memory_of_messages
from kvtier.server.collector import spare_long_lived
from kvtier.server.config import ConfigError, NodeConfig, load_config
from kvtier.server.lifecycle import TierServer
from kvtier.server.listening import StartError
from kvtier.server.logs import configure_logs
from kvtier.server.stores.base import StoreError

_USAGE_ERROR = 2
_FAILED = 1


@click.command(name="serve", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", type=click.Path(path_type=Path), help="The YAML file.")
@click.option("--node-id", help="The node's stable id.  [default: the host name]")
@click.option("--listen", help="The address, HOST:PORT.  [default: 127.0.0.1:7600]")
@click.option(
    "--insecure", is_flag=True, default=None, help="Allow more than loopback without TLS."
)
@click.option("--log-level", help="debug, info, warning or error.  [default: info]")
def command(
    config: Path | None,
    node_id: str | None,
    listen: str | None,
    insecure: bool | None,
    log_level: str | None,
) -> None:
    """Run a node: a tier server that holds blocks and tells what it holds.

    Without a configuration it holds one host-memory tier of 1 GiB, on loopback. Settings come from
    the YAML file, from KVTIER_ environment variables over it, and from these options over both.
    """
    options = {
        "node_id": node_id,
        "listen": listen,
        "insecure": insecure,
        "log_level": log_level,
    }
    try:
        settings = load_config(config, os.environ, options)
    except ConfigError as error:
        _fail(error, _USAGE_ERROR)
    configure_logs(settings.log_level)
    keep_memory_of_messages()
    with asyncio.Runner(loop_factory=_new_loop()) as runner:
        try:
            runner.run(serve(settings))
        except ConfigError as error:
            _fail(error, _USAGE_ERROR)
        except (StartError, StoreError) as error:
            _fail(error, _FAILED)


async def serve(config: NodeConfig) -> None:
    """Serve until SIGTERM or SIGINT; a second one hurries."""
    server = TierServer(config)
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            server.hurry()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    try:
        await server.start()
        spare_long_lived()
    except BaseException:
        await server.close()
        raise
    _announce(server)
    await stop.wait()
    await server.drain_and_stop()


def _announce(server: TierServer) -> None:
    """Say on standard output that the node serves, and where: one line of JSON, for scripts."""
    tiers = [{"name": tier.name, "device": tier.store.device} for tier in server.node.tiers]
    serving = {"event": "serving", "node_id": server.node.node_id, "listen": server.address}
    sys.stdout.write(json.dumps(serving | {"tiers": tiers}) + "\n")
    sys.stdout.flush()


def _new_loop() -> type[asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        return None
    return uvloop.Loop


def _fail(error: Exception, code: int) -> NoReturn:
    sys.stderr.write(f"error: {error}\n")
    sys.exit(code)
