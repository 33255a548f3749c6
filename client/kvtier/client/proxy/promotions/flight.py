"""Blocks on their way from a secondary to the primary."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import NamedTuple

import grpc

from kvtier.client.answers import BlockKey
from kvtier.client.errors import KvtierError, typed
from kvtier.client.node import NodeClient
from kvtier.client.proxy.runs import Runs
from kvtier.v1.copying_pb2 import PeerTier
from kvtier.v1.result_pb2 import CopyResult

FAILED = CopyResult.COPY_RESULT_FAILED
Arrival = asyncio.Future[CopyResult.ValueType]


class Route(NamedTuple):
    """From where to where blocks are brought.

    Attributes:
        client: The primary's client.
        tier: The primary's tier.
        source: The secondary's tier.
        node: The secondary's node id.
    """

    client: NodeClient
    tier: str
    source: PeerTier
    node: str

    @property
    def endpoint(self) -> str:
        """The secondary's address."""
        return self.source.endpoint


class Flight:
    """One copy from a tier of a secondary to a tier of the primary.

    It goes on as long as somebody wants what it brings: when the last one leaves, it is ended.

    Args:
        route: From where to where.
        runs: The blocks' request.
        places: The places there of the blocks that are brought, each block once.
        arrived: Called with what becomes of each block, as soon as it is known.
        ended: Called once, when it has ended.
        clock: The time, in seconds.

    Attributes:
        route: As given.
        arrivals: What becomes of each block; FAILED of those that nothing became known of.
        error: What it failed with; None when it did not.
        wanted: By how many it is wanted.
        given_up: It was ended because nobody wanted it any more.
    """

    def __init__(
        self,
        route: Route,
        runs: Runs,
        places: list[int],
        *,
        arrived: "Callable[[Flight, BlockKey, CopyResult.ValueType], None]",
        ended: "Callable[[Flight], None]",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.route = route
        self.error: KvtierError | None = None
        self.wanted = 0
        self.given_up = False
        self._keys = [runs.keys[place] for place in places]
        self.arrivals: Mapping[BlockKey, Arrival] = {
            key: loop.create_future() for key in self._keys
        }
        self._arrived = arrived
        self._ended = ended
        self._clock = clock
        self._moved = clock()
        self._task = asyncio.create_task(self._fly(runs, places))
        # Not at the end of the task itself: one that is cancelled early never begins.
        self._task.add_done_callback(self._land)

    @property
    def still(self) -> float:
        """Seconds for which nothing has come."""
        return self._clock() - self._moved

    def left(self) -> None:
        """Note that one who wanted it does not any more."""
        self.wanted -= 1
        if not self.wanted and not all(each.done() for each in self.arrivals.values()):
            self.given_up = True
            # Who asks for these blocks now must not wait for what is being ended.
            self._settle()
            self._task.cancel()

    async def close(self) -> None:
        """End it."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _fly(self, runs: Runs, places: list[int]) -> None:
        client, tier, source, _ = self.route
        try:
            copying = client.copy(runs.namespace, runs.some(places), to_tier=tier, from_peer=source)
            async with aclosing(copying) as answers:
                async for answer in answers:
                    self._moved = self._clock()
                    for number, result in zip(answer.block_indexes, answer.results, strict=True):
                        self._arrive(self._keys[number], result)
        except KvtierError as error:
            self.error = error
        except Exception as error:  # noqa: BLE001 - who waits for it would wait for ever
            self.error = typed(grpc.StatusCode.UNKNOWN, "", f"{type(error).__name__}: {error}")

    def _land(self, _: object) -> None:
        self._settle()
        self._ended(self)

    def _settle(self) -> None:
        for key in self._keys:
            self._arrive(key, FAILED)

    def _arrive(self, key: BlockKey, result: CopyResult.ValueType) -> None:
        if not self.arrivals[key].done():
            self.arrivals[key].set_result(result)
            self._arrived(self, key, result)
