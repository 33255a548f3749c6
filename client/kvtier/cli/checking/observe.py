"""Asking a node what it holds, and comparing that with its events, while it is at work."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kvtier.cli.checking.comparison import TierComparison
from kvtier.cli.checking.difference import Blocks, Facts, Touched, differ
from kvtier.cli.follow import View
from kvtier.client import BlockKey, InvalidArgumentError, NodeClient, NotFoundError
from kvtier.v1.block_pb2 import BlockSet, Position
from kvtier.v1.event_service_pb2 import TierState

_Held = dict[str, dict[BlockKey, Facts | None]]

_SILENT = TierState.TIER_STATE_SILENT
_PAGE = 5000
# Hashes of one lookup: a few milliseconds of the node's time.
_AT_ONCE = 4096


class Wanted(NamedTuple):
    """What to compare.

    Attributes:
        tiers: Names of tiers; none means all.
        namespace: The fingerprint of the only namespace; empty means all.
    """

    tiers: tuple[str, ...] = ()
    namespace: bytes = b""


EVERYTHING = Wanted()


@dataclass(frozen=True)
class Observer:
    """Asks a node what it holds while recording what its events tell.

    Attributes:
        client: The node's client.
        view: What its events say.
        wanted: What to compare.
        node_id: The node.
        at_once: Most hashes of one lookup.
        tiers: The wanted tiers that tell their events.
        silent: Those that do not.
        recovering: Those of `tiers` that do not know yet all that they hold, and how far they are.
    """

    client: NodeClient
    view: View
    wanted: Wanted
    node_id: str
    at_once: int
    tiers: Sequence[str]
    silent: Sequence[str]
    recovering: Mapping[str, str]

    @classmethod
    async def of(cls, client: NodeClient, view: View, wanted: Wanted) -> "Observer":
        """Return an observer of the tiers of a node that are wanted."""
        node = await client.get_node()
        tiers: dict[bool, list[str]] = {True: [], False: []}
        recovering = {}
        for tier in await client.list_tiers():
            if wanted.tiers and tier.name not in wanted.tiers:
                continue
            # Of a silent tier that is not ready the node itself tells the other state.
            silent = tier.state == _SILENT or view.arrival.is_silent(node.node_id, tier.name)
            tiers[silent].append(tier.name)
            if tier.state == TierState.TIER_STATE_RECOVERING and not silent:
                recovering[tier.name] = tier.state_reason
        return cls(
            client,
            view,
            wanted,
            node_id=node.node_id,
            at_once=min(_AT_ONCE, node.limits.hashes or _AT_ONCE),
            tiers=tiers[False],
            silent=tiers[True],
            recovering=recovering,
        )

    async def list_all(self) -> dict[str, TierComparison] | None:
        """Compare every block, or return None when the view began anew meanwhile."""

        def conclude(held: _Held, touched: Touched) -> dict[str, TierComparison]:
            return {name: self._compare(name, held[name], touched) for name in self.tiers}

        return await self._observe(self._list, conclude)

    async def look_again(
        self, found: dict[str, TierComparison]
    ) -> dict[str, TierComparison] | None:
        """Compare the open blocks, or return None when the view began anew meanwhile."""
        blocks = {block for tier in found.values() for block in tier.difference.open}

        def conclude(held: _Held, touched: Touched) -> dict[str, TierComparison]:
            for name, tier in found.items():
                told = self.view.blocks(self.node_id, name)
                still = tier.difference.open
                later = differ(
                    {block: told[block] for block in still if block in told},
                    {block: None for block in still if block in held[name]},
                    touched.within(name),
                )
                tier.difference.settle(later)
            return found

        return await self._observe(lambda: self._look_up(blocks), conclude)

    def _compare(self, tier: str, held: Blocks, touched: Touched) -> TierComparison:
        told = self.view.blocks(self.node_id, tier)
        return TierComparison(len(told), len(held), differ(told, held, touched.within(tier)))

    async def _observe(
        self,
        ask: Callable[[], Awaitable[_Held]],
        conclude: Callable[[_Held, Touched], dict[str, TierComparison]],
    ) -> dict[str, TierComparison] | None:
        """Ask the node, wait until the view is past its head of then, and conclude at once.

        The view's position when recording begins is no later than what the node holds when it is
        asked, so that everything which happens meanwhile is recorded.
        """
        await self._catch_up()
        before = self.view.arrival.position(self.node_id)
        with self.view.journal.recording(self.node_id) as touched:
            try:
                held = await ask()
            except (InvalidArgumentError, NotFoundError):
                # A restarted node knows neither page tokens nor namespaces of its former life.
                head = await self._catch_up()
                if before is None or head.epoch == before.epoch:
                    raise
                return None
            head = await self._catch_up()
            if before is None or touched.restarted or head.epoch != before.epoch:
                return None
            return conclude(held, touched)

    async def _catch_up(self) -> Position:
        head = (await self.client.get_node()).head
        await self.view.arrival.reach(self.node_id, head)
        return head

    async def _list(self) -> _Held:
        held: _Held = defaultdict(dict)
        if not self.tiers:
            return held
        listing = self.client.list_blocks(
            tiers=self.tiers, namespace=self.wanted.namespace, page_size=_PAGE
        )
        async for block in listing:
            key = BlockKey(block.namespace, block.group, block.scope, block.block_hash)
            facts = Facts(block.parent_block_hash, block.start_position, block.adapter_name)
            held[block.tier][key] = facts
        return held

    async def _look_up(self, blocks: Iterable[BlockKey]) -> _Held:
        held: _Held = defaultdict(dict)
        spaces: dict[tuple[bytes, int, bytes], list[BlockKey]] = defaultdict(list)
        for block in blocks:
            spaces[block[:3]].append(block)
        for (namespace, group, scope), members in spaces.items():
            for first in range(0, len(members), self.at_once):
                some = members[first : first + self.at_once]
                packed = b"".join(block.block_hash for block in some)
                chain = BlockSet(group=group, scope=scope, block_hashes=packed)
                answer = await self.client.lookup(namespace, [chain], include_blocks=True)
                for block, mask in zip(some, answer.chains[0].tier_masks, strict=True):
                    for place, tier in enumerate(answer.tiers):
                        if mask >> place & 1:
                            held[tier][block] = None
        return held
