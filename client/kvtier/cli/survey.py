"""What all nodes hold of a namespace at one time, from their events."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from kvtier.cli.connect import connected
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.options import Settings
from kvtier.client import BlockIndex, Watch
from kvtier.client.source import is_removal
from kvtier.v1.event_service_pb2 import SourceState, WatchEventsResponse

_LOST = {SourceState.SOURCE_STATE_SUSPECT, SourceState.SOURCE_STATE_DOWN}


class Survey:
    """Folds the events of several endpoints into one index, and knows who is not in sync.

    Attributes:
        index: Who holds what.
    """

    def __init__(self, endpoints: Sequence[str]) -> None:
        self.index = BlockIndex()
        self._heard: dict[str, set[str]] = {endpoint: set() for endpoint in endpoints}
        self._owners: dict[str, str] = {}
        self._complaints: dict[str, str] = {}
        self._moved = asyncio.Event()

    def take(self, endpoint: str, message: WatchEventsResponse) -> None:
        """Take the next message of an endpoint.

        A node that is behind two endpoints is followed at the first one only.
        """
        state, node_id = message.state, message.node_id
        if not state.tier and state.source in _LOST:
            self._complaints[endpoint] = state.reason
        if message.HasField("sources"):
            self._heard[endpoint] = set(message.sources.node_ids)
        if node_id:
            if message.HasField("state") and is_removal(state):
                self._heard[endpoint].discard(node_id)
            else:
                self._heard[endpoint].add(node_id)
            if self._owners.setdefault(node_id, endpoint) == endpoint:
                self.index.apply(message)
        self._moved.set()

    def fail(self, endpoint: str) -> None:
        """Take note that no more messages of an endpoint will come."""
        del self._heard[endpoint]
        self._moved.set()

    async def reach(self, seconds: float) -> list[CommandError]:
        """Wait until all that was heard of is in sync, and return who is not by then, and why."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._missing():
                    self._moved.clear()
                    await self._moved.wait()
        what = f"its events did not come to be in sync within {seconds:g} s"
        todo = "wait longer with --timeout"
        return [
            CommandError(
                endpoint, what, self._complaints.get(endpoint, todo), code=ExitCode.UNREACHABLE
            )
            for endpoint in self._missing()
        ]

    def _missing(self) -> list[str]:
        return [
            endpoint
            for endpoint, heard in self._heard.items()
            if not heard or not all(map(self.index.position, heard))
        ]


async def survey(
    settings: Settings, endpoints: Sequence[str], namespace: bytes
) -> tuple[BlockIndex, Mapping[str, CommandError]]:
    """Follow nodes until they are in sync, or for the longest wait that the settings allow.

    Args:
        settings: How long to wait, and how to connect.
        endpoints: The nodes.
        namespace: The fingerprint of what to follow.

    Returns:
        Who holds what, and why an endpoint is missing in it.
    """
    view = Survey(endpoints)
    errors: dict[str, CommandError] = {}

    async def follow(endpoint: str) -> None:
        try:
            async with (
                connected(endpoint, settings) as client,
                Watch(client, namespaces=[namespace]) as watch,
            ):
                async for message in watch:
                    view.take(endpoint, message)
        except CommandError as error:
            errors[endpoint] = error
            view.fail(endpoint)

    tasks = [asyncio.create_task(follow(endpoint)) for endpoint in endpoints]
    try:
        late = await view.reach(settings.timeout)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return view.index, errors | {error.who: error for error in late}
