"""However the others behave, events of the primary and of good secondaries come as ever."""

import asyncio
import statistics
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from kvtier.client import NodeClient, TieringProxy
from kvtier.v1.event_service_pb2 import SourceState, WatchEventsResponse
from tests.contract.conftest import Serve
from tests.contract.following import PATIENCE
from tests.contract.support import Serving, cpu_tier
from tests.contract.viewing import watch

from .relay import Relay

EVENTS = 60
# How much later than without the others an event may come on a busy machine, in seconds; one that
# waited for a hung secondary would be later by all the time that it has to answer, which is more.
NOISE = 1.0


@asynccontextmanager
async def hung() -> AsyncIterator[str]:
    """Take connections, and never say a word."""
    async with AsyncExitStack() as stack:

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            stack.callback(writer.transport.abort)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        stack.callback(server.close)
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"


@asynccontextmanager
async def flapping(node: Serving) -> AsyncIterator[str]:
    """Lead to a node, and break every connection each second."""
    async with Relay(node.endpoint) as relay:

        async def flap() -> None:
            while True:
                await asyncio.sleep(1)
                relay.reset()

        task = asyncio.create_task(flap())
        try:
            yield relay.endpoint
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class Merged:
    """What a proxy hands on, with the time when each message came."""

    def __init__(self, proxy: TieringProxy) -> None:
        self.messages: list[tuple[float, WatchEventsResponse]] = []
        self._moved = asyncio.Event()
        self._reading = asyncio.create_task(self._read(proxy))

    async def leave(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    def sequences(self, name: str) -> list[int]:
        """The batches of a node, as they came."""
        told = [message for _, message in self.messages if message.node_id == name]
        return [batch.sequence for message in told for batch in message.batches.batches]

    def states(self, name: str) -> list[tuple[str, str]]:
        """The states of a node, with their reasons."""
        told = [m.state for _, m in self.messages if m.node_id == name and m.state.source]
        return [
            (SourceState.Name(each.source).removeprefix("SOURCE_STATE_"), each.reason)
            for each in told
        ]

    async def brings(self, name: str, sequence: int) -> float:
        """Return when a batch came."""
        seen = 0
        async with asyncio.timeout(PATIENCE):
            while True:
                for when, message in self.messages[seen:]:
                    if message.node_id == name and message.through >= sequence:
                        return when
                seen = len(self.messages)
                self._moved.clear()
                await self._moved.wait()

    async def _read(self, proxy: TieringProxy) -> None:
        loop = asyncio.get_running_loop()
        async for message in proxy.watch():
            self.messages.append((loop.time(), message))
            self._moved.set()


@asynccontextmanager
async def merging(*endpoints: str) -> AsyncIterator[tuple[TieringProxy, Merged]]:
    """Follow nodes by a proxy, the first as the primary."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(NodeClient(each)) for each in endpoints]
        proxy = TieringProxy(clients[0], clients[1:], watch=watch)
        await stack.enter_async_context(proxy)
        merged = Merged(proxy)
        stack.push_async_callback(merged.leave)
        yield proxy, merged


async def latencies(merged: Merged, node: Serving, others: Sequence[Serving]) -> list[float]:
    """Store block after block, on the others too, and return how long each took to be told."""
    loop = asyncio.get_running_loop()
    name = (await node.client.get_node()).node_id
    taken = []
    for step in range(EVENTS):
        head = (await node.client.get_node()).head.sequence
        for each in (*others, node):
            begun = loop.time()
            await each.store((id(merged), step))
        taken.append(await merged.brings(name, head + 1) - begun)
        await asyncio.sleep(0.05)
    return taken


def contiguous(sequences: list[int]) -> bool:
    first = sequences[0] if sequences else 0
    return sequences == list(range(first, first + len(sequences)))


@pytest.mark.slow
async def test_a_hung_and_a_flapping_secondary_delay_nobody(serve: Serve) -> None:
    """The primary's events come as soon as without them; each source's come in order, and once."""
    primary, shaky, good = [await serve(cpu_tier(256)) for _ in range(3)]
    names = [(await node.client.get_node()).node_id for node in (primary, shaky, good)]
    async with merging(primary.endpoint, good.endpoint) as (_, alone):
        before = await latencies(alone, primary, [good, shaky])
    async with (
        hung() as dead_end,
        flapping(shaky) as shaken,
        merging(primary.endpoint, dead_end, shaken, good.endpoint) as (proxy, merged),
    ):
        during = await latencies(merged, primary, [good, shaky])
        head = (await good.client.get_node()).head.sequence
        await merged.brings(names[2], head)
        await merged.leave()

        for node in (good, primary):
            await node.store("last")
        await asyncio.sleep(1)
        taken = [m.node_id for m in proxy.take_events() if m.HasField("batches")]

    assert statistics.median(during) < 2 * statistics.median(before) + NOISE / 10
    assert max(during) < max(before) + NOISE
    assert any(dead_end in why for what, why in merged.states("") if what == "DOWN")
    assert "DOWN" in [what for what, _ in merged.states(names[1])]
    assert [what for what, _ in merged.states(names[2])] == ["SNAPSHOT", "LIVE"]
    assert [name for name in taken if name != names[1]] == [names[0], names[2]]
    for name in names:
        assert contiguous(merged.sequences(name))
    assert len(merged.sequences(names[2])) >= EVENTS
