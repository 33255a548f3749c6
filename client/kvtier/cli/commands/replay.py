"""`kvtier replay`."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import click

from kvtier.cli.connect import connected
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.nodes import running_node
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import printing
from kvtier.cli.output.table import field_lines
from kvtier.cli.params import block_size
from kvtier.cli.progress import progress
from kvtier.cli.replay import Report, Target, replay, replay_namespace
from kvtier.cli.run import run
from kvtier.cli.trace import Request, TraceError, count_requests, read_trace
from kvtier.cli.two_tiers import Tiers, TwoTierReport, replay_two_tiers
from kvtier.client import NodeClient
from kvtier.v1.event_service_pb2 import TierState
from kvtier.v1.tier_pb2 import Tier

_GPU, _TIER = "gpu0", "cpu0"


class _Options(NamedTuple):
    trace: Path
    capacity: int | None
    policy: str | None
    block_bytes: int
    tier: str | None
    limit: int | None
    gpu_capacity: int | None
    cpu_capacity: int | None
    mode: str | None


@click.command()
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--capacity", type=click.IntRange(1), metavar="BLOCKS", help="Blocks that the tier holds."
)
@click.option("--policy", help="The tier's replacement policy; lru by default.")
@click.option(
    "--block-bytes",
    type=block_size,
    metavar="SIZE",
    default=64,
    show_default=True,
    help="Bytes of each block.",
)
@click.option("--tier", help="With --endpoint: the tier to store in, the fastest by default.")
@click.option(
    "--gpu-capacity",
    type=click.IntRange(1),
    metavar="BLOCKS",
    help="Replay against two tiers: blocks that the faster one holds.",
)
@click.option(
    "--cpu-capacity",
    type=click.IntRange(1),
    metavar="BLOCKS",
    help="With --gpu-capacity: blocks that the slower tier holds.",
)
@click.option(
    "--mode",
    type=click.Choice(["inclusive", "exclusive"]),
    help="With --gpu-capacity: what is stored is written through to the slower tier, or what is "
    "evicted goes there.",
)
@click.option("--limit", type=click.IntRange(1), help="Replay only so many requests.")
@common_options
@pass_settings
def command(settings: Settings, /, **options: Any) -> None:
    """Replay a trace of requests and count.

    TRACE is a file with a JSON object a line. Each request's chain is looked up and then stored,
    over gRPC. Hits are counted from the lookups' answers, everything else from the node's events.
    The exit code is 6 when a follower's view of the events is not what the node lists at the end.

    The replay starts a node of its own, with one tier of --capacity blocks or with two, unless
    --endpoint names one on the command line. The environment does not count there: a replay fills
    the tier.
    """
    chosen = _Options(**options)
    two = _is_for_two(chosen)
    with printing(settings) as printer:
        try:
            report = run(_replay_two(settings, chosen)) if two else run(_replay(settings, chosen))
        except TraceError as error:
            raise CommandError("kvtier", str(error), code=ExitCode.USAGE) from error
        record = asdict(report)
        printer.one(record, field_lines((k, _text(v)) for k, v in record.items()))
    if not report.view_equals_listing:
        what = "what a follower of the events sees is not what the node lists"
        raise CommandError("kvtier", what, code=ExitCode.DIFFERENCE)


async def _replay(settings: Settings, options: _Options) -> Report:
    async with _node(settings, options) as endpoint, connected(endpoint, settings) as client:
        target = await _target(client, options)
        total = options.limit or count_requests(options.trace)
        with progress("replaying", total) as advance:
            return await replay(client, target, _requests(options), advance)


def _is_for_two(options: _Options) -> bool:
    """Tell whether two tiers are asked for, and refuse options that do not go together."""
    needed = (options.gpu_capacity, options.cpu_capacity, options.mode)
    if not any(needed):
        return False
    if not all(needed):
        raise click.UsageError("--gpu-capacity, --cpu-capacity and --mode go together")
    if options.capacity is not None or options.tier is not None:
        raise click.UsageError("--capacity and --tier are for a replay against one tier")
    return True


async def _replay_two(settings: Settings, options: _Options) -> TwoTierReport:
    if settings.named:
        raise click.UsageError("a replay against two tiers is against a node of its own")
    total = options.limit or count_requests(options.trace)
    async with (
        running_node(two_tier_node(options)) as node,
        connected(node.endpoint, settings) as client,
    ):
        namespace = await client.register_namespace(replay_namespace(options.block_bytes))
        tiers = Tiers(_GPU, _TIER, namespace, options.block_bytes)
        with progress("replaying", total) as advance:
            return await replay_two_tiers(client, tiers, _requests(options), advance)


def two_tier_node(options: _Options) -> dict[str, Any]:
    """Return the configuration of a node whose copies are never given up, so that counts hold."""
    sizes = {"slot_bytes": options.block_bytes, "policy": options.policy or "lru"}
    gpu: dict[str, Any] = {
        "name": _GPU,
        "medium": "gpu",
        "device": "emulated",
        "capacity": (options.gpu_capacity or 0) * options.block_bytes,
        "promotion_limit": 1,
        **sizes,
    }
    cpu = {"capacity": (options.cpu_capacity or 0) * options.block_bytes, **sizes}
    down = {"on_evict": _TIER, "free_target": 0, "demote_wait": 10}
    how = down if options.mode == "exclusive" else {"write_through": [_TIER]}
    tiers = [gpu | how, {"name": _TIER, "medium": "cpu", **cpu}]
    return {"node_id": "replay", "drain_timeout": 1, "tiers": tiers, "events": {"linger": 0.05}}


def _requests(options: _Options) -> Iterator[Request]:
    return islice(read_trace(options.trace), options.limit)


@asynccontextmanager
async def _node(settings: Settings, options: _Options) -> AsyncIterator[str]:
    """Give the endpoint of the node to use, one of the replay's own unless one is named."""
    if settings.named:
        yield settings.one_endpoint()
        return
    if options.capacity is None:
        raise click.UsageError("--capacity is needed for a node of the replay's own")
    if options.tier is not None:
        raise click.UsageError("--tier goes with --endpoint")
    tier = {
        "name": _TIER,
        "medium": "cpu",
        "capacity": options.capacity * options.block_bytes,
        "slot_bytes": options.block_bytes,
        "policy": options.policy or "lru",
    }
    # Nobody waits for single events here, and fewer messages leave more time for requests.
    events = {"linger": 0.05}
    config = {"node_id": "replay", "drain_timeout": 1, "tiers": [tier], "events": events}
    async with running_node(config) as node:
        yield node.endpoint


async def _target(client: NodeClient, options: _Options) -> Target:
    namespace = await client.register_namespace(replay_namespace(options.block_bytes))
    tiers = await client.list_tiers()
    found = [tier for tier in tiers if options.tier in (None, tier.name)]
    if not found:
        names = ", ".join(tier.name for tier in tiers)
        raise CommandError(
            client.endpoint,
            f"there is no tier {options.tier!r}",
            f"it has {names}",
            reason="TIER_UNKNOWN",
            code=ExitCode.NOT_FOUND,
        )
    _check(client.endpoint, found[0], options)
    return Target(found[0].name, namespace, options.block_bytes)


def _check(endpoint: str, tier: Tier, options: _Options) -> None:
    """Check that the tier is as the caller said, so that the counts mean what they seem to."""
    if tier.state == TierState.TIER_STATE_SILENT:
        what = f"tier {tier.name} keeps no events, and so nothing can be counted"
        raise CommandError(endpoint, what, "name another with --tier", code=ExitCode.USAGE)
    wanted = (("capacity", options.capacity), ("policy", options.policy))
    actual = {"capacity": tier.capacity_blocks, "policy": tier.policy}
    for name, value in wanted:
        if value not in (None, actual[name]):
            what = f"tier {tier.name} has {name} {actual[name]}, not {value}"
            todo = f"leave --{name} out to take the tier as it is"
            raise CommandError(endpoint, what, todo, code=ExitCode.USAGE)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
