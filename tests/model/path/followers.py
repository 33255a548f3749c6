"""Followers of several nodes, each with one index."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

from kvtier.client import BlockIndex

from .auditor import Auditor
from .following import Following
from .ledger import Ledger
from .nodes import PathNode
from .views import Contents, check_view
from .wanted import Wanted


class Follower:
    """Follows nodes, and knows in one index what they hold.

    Attributes:
        followings: One for each node.
        index: What it knows.
    """

    def __init__(self, wanted: Wanted, ledger: Ledger) -> None:
        self.index = BlockIndex()
        self.followings: list[Following] = []
        self._wanted = wanted
        self._ledger = ledger
        self._open = AsyncExitStack()

    async def close(self) -> None:
        """Leave for good."""
        await self._open.aclose()

    async def add(self, node: PathNode) -> Following:
        """Get ready to follow one more node, but do not come yet."""
        relay = await self._open.enter_async_context(node.relayed())
        auditor = Auditor(self._ledger, self._wanted)
        following = Following(node, relay, self.index, auditor, self._wanted)
        self._open.push_async_callback(following.client.close)
        self._open.push_async_callback(following.leave)
        self.followings.append(following)
        return following

    def check(self) -> None:
        """Raise what a message did wrong."""
        for following in self.followings:
            following.check()

    async def settle(self) -> None:
        """Read on until all is known of every node that is followed now."""
        await asyncio.gather(*(following.catch_up() for following in self._present))

    def compare(self, contents: Contents) -> None:
        """Fail unless the view is what the nodes list."""
        check_view(
            self.index,
            [following.node for following in self._present],
            {node_id: self._wanted.part_of(held) for node_id, held in contents.items()},
            silent=not self._wanted.tier,
        )

    def seen(self) -> Counter[str]:
        """Return how often each kind of thing happened."""
        return sum((following.auditor.seen for following in self.followings), Counter())

    @property
    def _present(self) -> list[Following]:
        return [following for following in self.followings if not following.away]
