"""ListBlocks and DescribeBlock, passed on to the nodes."""

import asyncio
from collections.abc import Sequence

from kvtier.client import BlockIndex, BlockKey, NodeClient
from kvtier.proxy.asking import Asking, name_of
from kvtier.proxy.behind import Member, Members, full_name, node_of, own_name
from kvtier.proxy.page_token import PageToken, read_token, write_token
from kvtier.proxy.requests import described
from kvtier.server.operations.requests import read_group, read_hash, read_scope
from kvtier.v1.listing_pb2 import (
    DescribeBlockRequest,
    DescribeBlockResponse,
    ListBlocksRequest,
    ListBlocksResponse,
)
from kvtier.wire.errors import KvtierError, Reason, not_found, quote, unavailable

_RETRY_AFTER = 1.0
_NOT_THERE = frozenset({Reason.NAMESPACE_UNKNOWN, Reason.BLOCK_UNKNOWN})


class Listing:
    """Lists and describes the blocks of all nodes, by asking them.

    Args:
        members: Whom the proxy follows.
        index: What all of them hold.
        asking: Asks them.
    """

    def __init__(self, members: Members, index: BlockIndex, asking: Asking) -> None:
        self._members = members
        self._index = index
        self._asking = asking

    async def page(self, request: ListBlocksRequest) -> ListBlocksResponse:
        """Return one page, which is one member's: they are listed one after the other.

        Raises:
            KvtierError: As the RPC's comment says; UNAVAILABLE when the one whose turn it is does
                not answer, since the listing would lack what it holds.
        """
        if request.namespace:
            described(self._index, request.namespace)
        listed = self._wanted(request.tiers)
        endpoints = [member.endpoint for member in listed]
        place, inner = read_token(request, endpoints)
        page = await self._asking.ask(
            listed[place], lambda client: _page(client, request, listed[place], inner)
        )
        following = PageToken(place, page.next_page_token)
        if not page.next_page_token:
            following = PageToken(place + 1, b"")
        is_last = following.place == len(listed)
        page.next_page_token = b"" if is_last else write_token(request, endpoints, following)
        return page

    async def describe(self, request: DescribeBlockRequest) -> DescribeBlockResponse:
        """Tell everything about one block, of the nodes in reach.

        Those that are known to have it are asked; the others too, when these have it no more.

        Raises:
            KvtierError: As the RPC's comment says; UNAVAILABLE when it was not found, and not
                everybody answered.
        """
        members = list(self._members)
        holders = self._holders(request)
        known = [member for member in members if holders.intersection(member.node_ids)]
        others = [member for member in members if member not in known]
        failures: list[KvtierError] = []
        for asked in (known, others):
            found = await self._ask(asked, request, failures)
            if found.copies or found.leases:
                return found
        raise _not_described(request, failures)

    def _wanted(self, tiers: Sequence[str]) -> list[Member]:
        """Return the members that have one of these tiers, or all when there is no filter."""
        nodes = {node_of(tier): tier for tier in tiers}
        members = [m for m in self._members if not tiers or nodes.keys() & set(m.node_ids)]
        known = {node for member in members for node in member.node_ids}
        for node, tier in nodes.items():
            if node not in known:
                raise not_found(
                    f"tier {quote(tier)} is of no node behind this proxy; name it NODE/TIER, of "
                    f"{', '.join(map(name_of, self._members))}",
                    Reason.TIER_UNKNOWN,
                )
        return members

    def _holders(self, request: DescribeBlockRequest) -> set[str]:
        namespace = described(self._index, request.namespace)
        group, scope = read_group(namespace, request.group), read_scope(request.scope)
        block_hash = read_hash(namespace, request.block_hash)
        key = BlockKey(namespace.fingerprint, group, scope, block_hash)
        return {holder.node for holder in self._index.locate(key)}

    async def _ask(
        self,
        members: Sequence[Member],
        request: DescribeBlockRequest,
        failures: list[KvtierError],
    ) -> DescribeBlockResponse:
        answers = await asyncio.gather(
            *(self._asking.try_to_ask(m, lambda client: _block(client, request)) for m in members)
        )
        found = DescribeBlockResponse()
        for answer in answers:
            if not isinstance(answer, KvtierError):
                found.MergeFrom(answer)
            elif answer.reason not in _NOT_THERE:
                failures.append(answer)
        return found


async def _page(
    client: NodeClient, request: ListBlocksRequest, member: Member, token: bytes
) -> ListBlocksResponse:
    """Return a page of a member, with the full names of tiers."""
    nodes = member.node_ids
    node_id = (await client.get_node()).node_id
    asked = ListBlocksRequest()
    asked.CopyFrom(request)
    asked.page_token = token
    # A proxy behind this one takes the names as they are.
    name = own_name if nodes == [node_id] else str
    asked.tiers[:] = [name(tier) for tier in request.tiers if node_of(tier) in nodes]
    try:
        page = await client.list_blocks_page(asked)
    except KvtierError as error:
        if error.reason != Reason.NAMESPACE_UNKNOWN:
            raise
        return ListBlocksResponse()
    for block in page.blocks:
        block.tier = full_name(node_id, block.tier)
    return page


async def _block(client: NodeClient, request: DescribeBlockRequest) -> DescribeBlockResponse:
    """Return what a member says of a block, with the full names of tiers."""
    node, found = await asyncio.gather(
        client.get_node(),
        client.describe_block(request.namespace, request.group, request.scope, request.block_hash),
    )
    for copy in found.copies:
        copy.tier = full_name(node.node_id, copy.tier)
    for lease in found.leases:
        lease.tier = full_name(node.node_id, lease.tier)
    return found


def _not_described(request: DescribeBlockRequest, failures: Sequence[KvtierError]) -> KvtierError:
    what = f"block {quote(request.block_hash)} in this namespace, group and scope"
    if failures:
        return unavailable(
            f"no node that answered holds {what}; {failures[0].message}",
            Reason.PEER_UNREACHABLE,
            retry_after=_RETRY_AFTER,
        )
    return not_found(f"no node behind this proxy holds {what}", Reason.BLOCK_UNKNOWN)
