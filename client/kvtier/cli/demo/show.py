"""Running a demo: start the nodes, replay through the proxy, tell and check what happened."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

from kvtier.cli.demo import screen
from kvtier.cli.demo.checks import check_all
from kvtier.cli.demo.drive import Driver
from kvtier.cli.demo.plan import PRIMARY, SECONDARY, Plan
from kvtier.cli.demo.rounds import Rounds
from kvtier.cli.exit import told_by
from kvtier.cli.nodes import running_node
from kvtier.client import NodeClient, TieringProxy

_ROWS = 8
_ROUND_PAUSE = 0.005

Tell = Callable[[Iterable[str]], None]


class Outcome(NamedTuple):
    """What a demo came to.

    Attributes:
        tiers: Hits, stores and removals by tier.
        checks: What was checked, and whether it held.
        elapsed_s: Seconds, with the start of the nodes.
    """

    tiers: list[dict[str, Any]]
    checks: list[screen.Check]
    elapsed_s: float


async def show(plan: Plan, source: str, tell: Tell) -> Outcome:
    """Run a demo and tell it line by line.

    Args:
        plan: What to run.
        source: What the requests are, in words.
        tell: Shows lines.
    """
    start = perf_counter()
    async with (
        _client(plan, PRIMARY) as primary,
        _client(plan, SECONDARY) as secondary,
        TieringProxy(primary, [secondary]) as proxy,
    ):
        clients = {PRIMARY: primary, SECONDARY: secondary}
        nodes = [(name, c.endpoint, await c.list_tiers()) for name, c in clients.items()]
        tell(screen.opening(plan, nodes, source))
        driver = Driver(
            primary,
            secondary,
            proxy,
            namespace=await primary.register_namespace(plan.namespace),
            block_bytes=plan.block_bytes,
        )
        await secondary.register_namespace(plan.namespace)
        stage = _Stage(plan, proxy, driver, Rounds(PRIMARY))
        async with stage.taking():
            for node_id in clients:
                await stage.rounds.follower.arrival.reach(node_id)
        async for step in stage.replay():
            tell(screen.progress(step))
        async with stage.taking():
            checks = await check_all(plan, clients, stage.rounds)
    outcome = Outcome(stage.totals(), checks, perf_counter() - start)
    tell(screen.stretch(stage.rounds.stretch))
    tell(screen.totals(outcome.tiers))
    tell(screen.verdict(checks, outcome.elapsed_s))
    return outcome


@asynccontextmanager
async def _client(plan: Plan, node_id: str) -> AsyncIterator[NodeClient]:
    async with running_node(plan.node(node_id)) as node:
        with told_by(node.endpoint):
            async with NodeClient(node.endpoint) as client:
                yield client


@dataclass(frozen=True)
class _Stage:
    """What plays together while a demo runs."""

    plan: Plan
    proxy: TieringProxy
    driver: Driver
    rounds: Rounds

    async def replay(self) -> AsyncIterator[screen.Progress]:
        """Serve every request, take a round of events after each, and yield how far it has come."""
        total, asked, told = len(self.plan.requests), 0, 0
        for done, request in enumerate(self.plan.requests, 1):
            await self.driver.serve(done, request)
            self.rounds.take(self.proxy.take_events())
            asked += len(request.hash_ids)
            if done * _ROWS // total > told:
                yield self._progress(done, self.driver.hits.total() / asked, first=not told)
                told = done * _ROWS // total

    @asynccontextmanager
    async def taking(self) -> AsyncIterator[None]:
        """Take a round of events every few milliseconds while the block runs."""

        async def take() -> None:
            while True:
                self.rounds.take(self.proxy.take_events())
                await asyncio.sleep(_ROUND_PAUSE)

        task = asyncio.create_task(take())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def totals(self) -> list[dict[str, Any]]:
        """Return hits, stores and removals by tier."""
        follower = self.rounds.follower
        return [
            {
                **key._asdict(),
                "hits": self.driver.hits[key],
                "stored": follower.stored[key],
                "removed": follower.removed[key],
                "resident": follower.resident(key),
                "capacity_blocks": capacity,
            }
            for key, capacity in self.plan.capacities.items()
        ]

    def _progress(self, done: int, hit_share: float, *, first: bool) -> screen.Progress:
        follower = self.rounds.follower
        return screen.Progress(
            first=first,
            requests=done,
            hit_share=hit_share,
            stored=follower.stored.total(),
            removed=follower.removed.total(),
            use={key: follower.resident(key) / most for key, most in self.plan.capacities.items()},
        )
