"""`kvtier check`."""

import asyncio
from typing import Any, NamedTuple

import click

from kvtier.cli.checking.ledger import Ledger
from kvtier.cli.checking.observe import Wanted
from kvtier.cli.checking.verdict import Verdict
from kvtier.cli.checking.verify import compare
from kvtier.cli.connect import connected, find_namespace, raise_first
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.follow import following
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column, Printer, Record, printing
from kvtier.cli.output.colour import BAD, DOUBTFUL, tones
from kvtier.cli.output.messages import number
from kvtier.cli.output.table import table_lines
from kvtier.cli.run import run
from kvtier.client import NodeClient

_PAUSE = 1.0


def _other(record: Record) -> str:
    counted = record["unlike"] is not None
    return number(record["unlike"] + record["contradictions"] if counted else None)


def _said(facts: Record | None) -> str:
    if facts is None:
        return ""
    parent = facts["parent_block_hash"][:12]
    adapter = f" adapter {facts['adapter_name']}" if facts["adapter_name"] else ""
    return f"at {facts['start_position']}{f' after {parent}' if parent else ''}{adapter}"


_TONE = tones(
    {"differs": BAD, "busy": DOUBTFUL, "silent": DOUBTFUL, "recovering": DOUBTFUL}, "verdict"
)
_COLUMNS = (
    Column("NODE", lambda r: r["node_id"]),
    Column("TIER", lambda r: r["tier"]),
    Column("VERDICT", lambda r: r["verdict"], tone=_TONE),
    Column("EVENTS", lambda r: number(r["events"]), right=True),
    Column("LISTING", lambda r: number(r["listing"]), right=True),
    Column("ONLY EVENTS", lambda r: number(r["only_in_events"]), right=True),
    Column("ONLY LISTING", lambda r: number(r["only_in_listing"]), right=True),
    Column("OTHER", _other, right=True),
    Column("ROUNDS", lambda r: str(r["rounds"]), right=True),
    Column("POSITION", lambda r: r["position"] or ""),
)
_EXAMPLES = (
    Column("NODE", lambda r: r["node_id"]),
    Column("TIER", lambda r: r["tier"]),
    Column("DIFFERENCE", lambda r: r["difference"]),
    Column("NAMESPACE", lambda r: r["namespace_name"]),
    Column("EVENTS SAY", lambda r: _said(r["by_events"])),
    Column("LISTING SAYS", lambda r: _said(r["by_listing"])),
    Column("HASH", lambda r: r["block_hash"]),
)


class _Options(NamedTuple):
    tiers: tuple[str, ...]
    namespace: str | None
    examples: int
    seconds: float | None


@click.command()
@click.option("--tier", "tiers", multiple=True, help="Only this tier; may be repeated.")
@click.option("-n", "--namespace", help="Only this namespace, by name.")
@click.option(
    "--examples",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="Show at most so many differing blocks of a tier.",
)
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Go on checking for this time, once a second, or until something differs; once only by "
    "default.",
)
@common_options
@pass_settings
def command(settings: Settings, /, **options: Any) -> None:
    """Compare what events tell with what nodes list.

    Follows a node's events while it lists the node's blocks; the node may be at work meanwhile. A
    block that no event touched during the listing must be in both or in neither. One that was
    touched, and differs, is looked up again until it rests. Of blocks that no event touched,
    parents, positions and adapters are compared too. And no event may store a block that is there,
    or remove one that is not.

    VERDICT is equal, differs, busy, silent or recovering. EVENTS and LISTING count blocks, at
    slightly different moments when the node is at work. OTHER counts blocks that the two describe
    differently, and events that cannot be true.

    A proxy cannot be checked: check its nodes. A tier of files or objects that is recovering does
    not list all that it holds yet; with --for the checks go on, and the last one counts.

    The exit code is 0 when every tier is equal, 6 when one differs, and 1 when it cannot be told,
    because a tier is too busy, keeps no events or is recovering.
    """
    run(_check(settings, _Options(**options)))


async def _check(settings: Settings, options: _Options) -> None:
    with printing(settings, _COLUMNS) as printer:
        checks = [_Check(endpoint, settings, options, printer) for endpoint in settings.endpoints]
        await asyncio.gather(*(check.run() for check in checks))
        if rows := [row for check in checks for row in check.rows]:
            printer.write(rows)
        examples = [each for check in checks for each in check.examples]
        if examples and settings.for_people:
            lines = table_lines(_EXAMPLES, examples, titles=settings.headers)
            click.echo("\n".join(["", *lines]))
        errors = [error for check in checks for error in check.errors]
        errors.sort(key=lambda error: error.code is not ExitCode.DIFFERENCE)
        raise_first(errors)


class _Check:
    """Checks one node.

    Attributes:
        rows: What is to be shown in the order of the nodes, when each is checked once.
        examples: The differing blocks to be shown.
        errors: Why the node cannot be said to be in order, if so.
    """

    def __init__(
        self, endpoint: str, settings: Settings, options: _Options, printer: Printer
    ) -> None:
        self.rows: list[Record] = []
        self.examples: list[Record] = []
        self.errors: list[CommandError] = []
        self._endpoint = endpoint
        self._settings = settings
        self._options = options
        self._printer = printer
        self._only_recovering = False

    async def run(self) -> None:
        """Check as long as was asked for, or until something differs."""
        try:
            async with connected(self._endpoint, self._settings) as client:
                await self._check(client)
        except CommandError as error:
            self.errors.append(error)

    async def _check(self, client: NodeClient) -> None:
        node = await client.get_node()
        if not node.HasField("head"):
            what = "is a proxy, which has no events of its own to check"
            todo = "name its nodes with -e"
            raise CommandError(self._endpoint, what, todo, code=ExitCode.USAGE)
        wanted = await self._wanted(client)
        ledger = Ledger(node.node_id)
        clock = asyncio.get_running_loop().time
        end = clock() + (self._options.seconds or 0.0)
        namespaces = [wanted.namespace] if wanted.namespace else []
        async with following(client, ledger, tiers=wanted.tiers, namespaces=namespaces):
            while True:
                verdict = Verdict(self._endpoint, await compare(client, ledger, wanted), ledger)
                self._take(verdict)
                left = end - clock()
                if left <= 0 or verdict.differs:
                    return
                await asyncio.sleep(min(_PAUSE, left))

    async def _wanted(self, client: NodeClient) -> Wanted:
        name = self._options.namespace
        namespace = (await find_namespace(client, name)).fingerprint if name is not None else b""
        return Wanted(self._options.tiers, namespace)

    def _take(self, verdict: Verdict) -> None:
        records, error = verdict.records(self._options.examples), verdict.error()
        if self._options.seconds is None:
            self.rows += records
        else:
            self._printer.write(records)
        self.examples = [
            {"node_id": record["node_id"], "tier": record["tier"], **example}
            for record in records
            for example in record["examples"]
        ]
        if error is not None or self._only_recovering:
            self.errors = [error] if error is not None else []
        self._only_recovering = verdict.only_recovering
