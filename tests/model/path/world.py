"""Nodes, a proxy, and followers of every kind, on loopback in one event loop."""

import asyncio
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Self

from .blocks import SPACES
from .followers import Follower
from .following import Following
from .ledger import Ledger
from .nodes import PathNode
from .proxied import Proxied
from .relay import HoldingRelay
from .wanted import Wanted

# Logs of all sizes: followers of the second are outrun when they linger, of the third by a burst.
_EVENTS: Mapping[str, Mapping[str, object]] = {
    "alpha": {"max_batches": 4096, "linger": 0},
    "beta": {"max_batches": 8, "linger": 0.03},
    "gamma": {"max_batches": 96, "linger": 0.002},
}
_PACE = {"heartbeat_interval": 0.05, "message_bytes": "1KiB"}
FILTERS = (
    Wanted(),
    Wanted(full=True),
    Wanted(tier="cpu0"),
    Wanted(namespace=SPACES[0].fingerprint),
    Wanted(namespace=SPACES[3].fingerprint, full=True),
    Wanted(tier="gpu0", namespace=SPACES[4].fingerprint),
)
MOST_GUESTS = 3
_SMALL = 100


class World:
    """Everything that random steps act on.

    Attributes:
        ledger: The truth.
        nodes: The nodes, the proxy's primary first.
        proxied: The proxy and its reader.
        residents: Followers that are always there.
        guests: Followers that came later, the oldest first; some may be away.
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.nodes = [
            PathNode(f"{name}-{os.getpid()}", self.ledger, {**events, **_PACE})
            for name, events in _EVENTS.items()
        ]
        self.proxied = Proxied(self.nodes, self.ledger)
        self.residents: list[Follower] = []
        self.guests: list[Follower] = []
        self._gone: Counter[str] = Counter()
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            for node in self.nodes:
                await node.start()
                self._open.push_async_callback(node.stop, kill=True)
            await self._open.enter_async_context(self.proxied)
            for wanted in (FILTERS[0], FILTERS[2], FILTERS[4]):
                resident = await self._follower(wanted, self.nodes)
                self._open.push_async_callback(resident.close)
                self.residents.append(resident)
                for following in resident.followings:
                    following.come()
        except BaseException:
            await self._open.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for guest in self.guests:
            self._open.push_async_callback(guest.close)
        await self._open.aclose()

    @property
    def followings(self) -> list[Following]:
        """Every node as each follower follows it, also of those that are away."""
        followers = [*self.residents, *self.guests]
        return [following for follower in followers for following in follower.followings]

    @property
    def relays(self) -> list[HoldingRelay]:
        return [*(each.relay for each in self.followings), *self.proxied.relays]

    def with_small_logs(self) -> list[Following]:
        """Return how a resident follows those nodes whose logs are soon outrun."""
        followings = self.residents[0].followings
        return [each for each in followings if each.node.life.ring < _SMALL]

    async def join(self, wanted: Wanted, nodes: Sequence[PathNode]) -> Follower:
        """Let one more follower come; the oldest goes for good when there are too many."""
        if len(self.guests) == MOST_GUESTS:
            eldest = self.guests.pop(0)
            self._gone += eldest.seen()
            await eldest.close()
        guest = await self._follower(wanted, nodes)
        self.guests.append(guest)
        return guest

    def check(self) -> None:
        """Raise what any message did wrong so far."""
        for follower in (*self.residents, *self.guests):
            follower.check()
        self.proxied.check()

    async def quiet(self) -> None:
        """Mend everything, let everybody catch up, and compare all views with all listings."""
        followers = [*self.residents, *self.guests]
        await asyncio.gather(self.proxied.settle(), *(each.settle() for each in followers))
        contents = {node.node_id: await node.contents() for node in self.nodes}
        for node in self.nodes:
            assert contents[node.node_id] == node.life.holds[-1], "a listing is what was told"
        for follower in followers:
            follower.compare(contents)
        self.proxied.compare(contents)
        await self.proxied.compare_lookups(contents)

    def seen(self) -> Counter[str]:
        """Return how often each kind of thing happened, to nodes and to followers."""
        followers = [*self.residents, *self.guests]
        told = Counter(word for life in self.ledger.lives() for word in life.told)
        seen = [*(each.seen() for each in followers), self.proxied.seen()]
        return sum(seen, self._gone + told)

    async def _follower(self, wanted: Wanted, nodes: Sequence[PathNode]) -> Follower:
        follower = Follower(wanted, self.ledger)
        try:
            for node in nodes:
                await follower.add(node)
        except BaseException:
            await follower.close()
            raise
        return follower
