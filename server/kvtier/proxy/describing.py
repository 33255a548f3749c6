"""GetNode, ListTiers and ListNamespaces."""

import asyncio
from collections.abc import Iterator

from kvtier.client import BlockIndex, NodeClient
from kvtier.proxy.asking import Asking
from kvtier.proxy.behind import Member, Members, full_name
from kvtier.v1.event_service_pb2 import TierState
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.v1.tier_pb2 import Tier
from kvtier.wire.errors import KvtierError


class Describing:
    """Describes the tiers and namespaces of all nodes.

    Args:
        members: Whom the proxy follows.
        index: What all of them hold.
        asking: Asks them.
    """

    def __init__(self, members: Members, index: BlockIndex, asking: Asking) -> None:
        self._members = members
        self._index = index
        self._asking = asking

    async def tiers(self) -> list[Tier]:
        """Describe the tiers of all nodes, which are asked at once.

        Of a node that does not answer the tiers are those that it was heard of with, in no state.
        """
        described = await asyncio.gather(*map(self._tiers_of, self._members))
        return [tier for some in described for tier in some]

    def namespaces(self) -> list[Namespace]:
        """Return the namespaces that any node has described, by name."""
        named = self._index.namespaces().items()
        return [each for _, each in sorted(named, key=lambda item: (item[1].name, item[0]))]

    async def _tiers_of(self, member: Member) -> list[Tier]:
        answer = await self._asking.try_to_ask(member, _named_tiers)
        if isinstance(answer, KvtierError):
            return list(self._heard_of(member, answer.message))
        return answer

    def _heard_of(self, member: Member, why: str) -> Iterator[Tier]:
        for node in member.node_ids:
            for tier in self._index.tiers(node):
                info = self._index.tier_info(node, tier)
                yield Tier(
                    name=full_name(node, tier),
                    medium=info.medium,
                    locality=info.locality,
                    state=TierState.TIER_STATE_UNSPECIFIED,
                    state_reason=why,
                )


async def _named_tiers(client: NodeClient) -> list[Tier]:
    node, tiers = await asyncio.gather(client.get_node(), client.list_tiers())
    for tier in tiers:
        tier.name = full_name(node.node_id, tier.name)
        if tier.on_evict:
            tier.on_evict = full_name(node.node_id, tier.on_evict)
        tier.write_through[:] = [full_name(node.node_id, each) for each in tier.write_through]
    return tiers
