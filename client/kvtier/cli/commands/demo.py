"""`kvtier demo`."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import click

from kvtier.cli.demo.plan import Plan, make_plan
from kvtier.cli.demo.show import Outcome, show
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.options import Settings, output_option, pass_settings
from kvtier.cli.output import printing
from kvtier.cli.params import block_size
from kvtier.cli.replay import replay_namespace
from kvtier.cli.run import run
from kvtier.cli.trace import TraceError, read_trace
from kvtier.cli.workload import Workload


@click.command()
@click.option(
    "--trace",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Replay the requests of this file instead of generated ones.",
)
@click.option(
    "--requests",
    "count",
    type=click.IntRange(1),
    default=600,
    show_default=True,
    help="How many requests to replay.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the generated requests.")
@click.option(
    "--block-bytes",
    type=block_size,
    metavar="SIZE",
    default="4KiB",
    show_default=True,
    help="Bytes of each block.",
)
@output_option
@pass_settings
def command(
    settings: Settings, /, *, trace: Path | None, count: int, seed: int, block_bytes: int
) -> None:
    """Show two nodes and a proxy at work.

    Starts a primary node, with a GPU tier (emulated where there is no GPU) and a host tier, and a
    remote secondary with a host tier, as processes on this machine. Replays requests through the
    tiering proxy, tells what the merged events say, and checks it against the nodes. The exit code
    is 0 only when everything holds.
    """
    plan = _plan(trace, count, seed, block_bytes)
    source = trace.name if trace else "generated chats"
    with printing(settings) as printer:
        outcome = run(show(plan, source, _tell if settings.for_people else _ignore))
        printer.one(_record(plan, outcome), [])
    if not all(check.holds for check in outcome.checks):
        failed = ", ".join(check.name for check in outcome.checks if not check.holds)
        raise CommandError("kvtier demo", f"does not hold: {failed}", code=ExitCode.DIFFERENCE)


def _plan(trace: Path | None, count: int, seed: int, block_bytes: int) -> Plan:
    source = Workload(seed).requests(count) if trace is None else read_trace(trace)
    try:
        requests = list(islice(source, count))
    except TraceError as error:
        raise CommandError("kvtier", str(error), code=ExitCode.USAGE) from error
    if not requests:
        raise CommandError("kvtier", f"{trace} holds no request", code=ExitCode.USAGE)
    return make_plan(requests, replay_namespace(block_bytes))


def _tell(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


def _ignore(lines: Iterable[str]) -> None:
    del lines


def _record(plan: Plan, outcome: Outcome) -> dict[str, Any]:
    return {
        "requests": len(plan.requests),
        "blocks": plan.blocks,
        "tiers": outcome.tiers,
        "checks": {check.name: check.holds for check in outcome.checks},
        "elapsed_s": round(outcome.elapsed_s, 3),
    }
