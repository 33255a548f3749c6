"""A proxy over nodes on hosts of their own, each with a writer beside it."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvtier.client import NodeClient, TieringProxy, Watch
from kvtier.v1.event_service_pb2 import SourceState
from kvtier.v1.result_pb2 import LookupResult
from kvtier.wire.namespaces import fingerprint
from tests.contract.folding import listed
from tests.contract.support import blocks_of, cpu_tier, namespace, payloads, run, words
from tests.contract.viewing import View, watch
from tests.faults.conftest import StartNode
from tests.faults.processes import NodeProcess, end

from .arrivals import Arrivals
from .lab import Host, Lab
from .writer import SMALL_TIER

FINGERPRINT = fingerprint(namespace())

_ROOT = Path(__file__).parents[2]
_STATE = "SOURCE_STATE_"


@dataclass
class Member:
    """A node on a host of its own.

    Attributes:
        host: The host.
        process: The node.
        client: A client of the node, on the test's own host.
    """

    host: Host
    process: NodeProcess
    client: NodeClient

    @property
    def name(self) -> str:
        return str(self.process.config["node_id"])

    async def store(self, block: object, tier: str = "cpu0") -> None:
        """Store a block on the node."""
        await self.client.store(tier, FINGERPRINT, [run(block)], payloads(block))


async def start_member(
    lab: Lab, start_node: StartNode, stack: AsyncExitStack, **settings: Any
) -> Member:
    """Start a node on a new host."""
    host = lab.add()
    where = {"listen": host.listen, "insecure": True}
    process = await start_node(prefix=host.prefix, **where, **settings)
    client = await stack.enter_async_context(NodeClient(process.endpoint))
    await client.register_namespace(namespace())
    return Member(host, process, client)


class Cluster:
    """A proxy on the test's own host over a primary and secondaries.

    Attributes:
        primary: The primary.
        secondaries: The secondaries, in order.
        proxy: The proxy.
        view: What it hands on, folded.
        arrivals: When its messages came.
    """

    def __init__(self, members: Sequence[Member], proxy: TieringProxy) -> None:
        self.primary, *self.secondaries = members
        self.proxy = proxy
        self.arrivals = Arrivals()
        self.view = View(self.arrivals.noting(proxy.watch()))

    @property
    def members(self) -> list[Member]:
        return [self.primary, *self.secondaries]

    def states(self, member: Member) -> list[str]:
        """Return the states of a node that were told."""
        told = [m.state.source for m in self.view.messages if m.node_id == member.name]
        return [SourceState.Name(each).removeprefix(_STATE) for each in told if each]

    async def looked_up(self, *blocks: object) -> list[str]:
        """Return what a lookup by the proxy says of each block."""
        (found,) = await self.proxy.lookup(FINGERPRINT, [blocks_of(*blocks)])
        return words(LookupResult, found.results)

    async def live(self) -> None:
        """Wait until every node is followed."""
        for member in self.members:
            await self.view.until(lambda member=member: self.states(member)[-1:] == ["LIVE"])  # type: ignore[misc]

    async def in_sync(self) -> None:
        """Wait until all that happened at every node is known."""
        await self.live()
        for member in self.members:
            await self.view.settle(member.client)

    async def wrong(self) -> dict[str, int]:
        """Return of each node how many blocks are in its listing or in a view but not in both."""
        found = {}
        for member in self.members:
            there = set(await listed(member.client))
            mirrored = {
                (tier, *block)
                for tier in self.proxy.index.tiers(member.name)
                for block in self.proxy.index.blocks(member.name, tier)
            }
            found[member.name] = len(there ^ self.view.held(member.name)) + len(there ^ mirrored)
        return {name: count for name, count in found.items() if count}


def two_tiers(_: int) -> list[dict[str, object]]:
    """Return a tier with much room, and one in which blocks are evicted."""
    return [cpu_tier(4096), cpu_tier(64, SMALL_TIER)]


@asynccontextmanager
async def serving(
    lab: Lab,
    start_node: StartNode,
    tiers: Callable[[int], list[dict[str, object]]] = two_tiers,
    *,
    watch: Callable[..., Watch] = watch,
    **settings: Any,
) -> AsyncIterator[Cluster]:
    """Start a primary and two secondaries, and follow them by a proxy.

    Args:
        lab: Where.
        start_node: Starts a process.
        tiers: The tiers of a node, given its number.
        watch: Makes the proxy's watches.
        settings: Other settings of the nodes.
    """
    async with AsyncExitStack() as stack:
        members = [
            await start_member(lab, start_node, stack, tiers=tiers(number), **settings)
            for number in range(3)
        ]
        clients = [member.client for member in members]
        proxy = await stack.enter_async_context(TieringProxy(clients[0], clients[1:], watch=watch))
        cluster = Cluster(members, proxy)
        stack.push_async_callback(cluster.view.leave)
        await cluster.in_sync()
        yield cluster


@asynccontextmanager
async def writing(members: Sequence[Member]) -> AsyncIterator[None]:
    """Keep nodes busy from their own hosts, whatever their links do."""
    writers: list[Process] = []
    try:
        for seed, member in enumerate(members):
            command = (sys.executable, "-m", "tests.netns.writer", member.process.endpoint)
            writer = await asyncio.create_subprocess_exec(
                *member.host.prefix, *command, str(seed), stdout=PIPE, cwd=_ROOT
            )
            writers.append(writer)
            assert writer.stdout is not None
            assert await writer.stdout.readline() == b"writing\n"
        yield
        assert [writer.returncode for writer in writers] == [None] * len(writers)
    finally:
        for writer in writers:
            await end(writer)
