"""ListBlocks and DescribeBlock."""

import asyncio
import struct
from collections.abc import Callable, Sequence

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from xxhash import xxh3_64_intdigest

from kvtier.server.node import Node
from kvtier.server.operations.requests import read_group, read_hash, read_keys, read_scope
from kvtier.server.tiers.scan import WINDOW, ready_slots
from kvtier.server.tiers.spaces import PREFIX_BYTES
from kvtier.server.tiers.table import Origin
from kvtier.server.tiers.tier import Tier
from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.listing_pb2 import (
    DescribeBlockRequest,
    DescribeBlockResponse,
    ListBlocksRequest,
    ListBlocksResponse,
)
from kvtier.v1.tier_pb2 import Block, BlockLease
from kvtier.wire.errors import Reason, invalid, not_found, quote

_DEFAULT_PAGE, _MAX_PAGE = 1000, 5000
# Slots that one page looks at, so that a page of a large and empty tier takes a few milliseconds.
_MAX_LOOKED_AT = 64 * WINDOW
# Blocks described between two turns of the loop: one or two milliseconds.
_AT_ONCE = 250
# Incarnation, digest of the filter, place of the tier, slot; then the newest store of each tier.
_TOKEN = struct.Struct("<QQHI")
_BIRTH = struct.Struct("<Q")


async def list_blocks(node: Node, request: ListBlocksRequest) -> ListBlocksResponse:
    """Return one page, in order of tier and slot.

    The token holds the number of each tier's newest store when the listing began: a block that was
    stored later, also one that moved behind the reader that way, is not listed.
    """
    tiers = node.some_tiers(request.tiers)
    passes = _filter(node, request)
    limit = _page_size(request.page_size)
    token = _Token.read(node, request)
    page = ListBlocksResponse()
    looked_at = 0
    while token.place < len(node.tiers) and len(page.blocks) < limit:
        tier = node.tiers[token.place]
        if tier not in tiers or token.slot >= len(tier.table):
            token.place, token.slot = token.place + 1, 0
            continue
        if looked_at >= _MAX_LOOKED_AT:
            break
        looked_at += WINDOW
        room = min(limit - len(page.blocks), _AT_ONCE)
        slots = _window(tier, token, room, passes)
        page.blocks.extend(describe_slot(tier, slot) for slot in slots)
        await asyncio.sleep(0)
    if token.place < len(node.tiers):
        page.next_page_token = token.encode()
    return page


def describe_block(node: Node, request: DescribeBlockRequest) -> DescribeBlockResponse:
    """Tell everything about one block."""
    namespace = node.registry.get(request.namespace)
    block_hash = read_hash(namespace, request.block_hash)
    named = BlockSet(group=request.group, scope=request.scope, block_hashes=block_hash)
    (key,) = read_keys(node, namespace, [named])
    copies = [
        describe_slot(tier, slot)
        for tier in node.tiers
        if tier.holds(key) and (slot := tier.table.index.get(key)) is not None
    ]
    leases = _leases_on(node, key)
    if not copies and not leases:
        raise not_found(
            f"no tier of node {node.node_id} holds block {quote(request.block_hash)} in this "
            "namespace, group and scope",
            Reason.BLOCK_UNKNOWN,
        )
    return DescribeBlockResponse(copies=copies, leases=leases)


def describe_slot(tier: Tier, slot: int) -> Block:
    """Return the block in a readable slot."""
    table = tier.table
    origin, parent, birth = table.origin[slot], table.parent[slot], table.birth[slot]
    space = origin.space
    stored = Timestamp()
    stored.FromNanoseconds(int(birth.time * 1e9))
    return Block(
        tier=tier.name,
        namespace=space.namespace.fingerprint,
        group=space.group,
        scope=space.scope,
        block_hash=table.key[slot][PREFIX_BYTES:],
        parent_block_hash=(parent or b"")[PREFIX_BYTES:],
        start_position=table.start[slot],
        size_bytes=space.block_bytes,
        checksum=table.checksum[slot],
        adapter_name=origin.adapter_name,
        leases=table.leases[slot],
        stored_time=stored,
    )


class _Token:
    """Where a listing goes on, and what it had seen when it began."""

    def __init__(self, node: Node, digest: int, place: int, slot: int, births: list[int]) -> None:
        self._head = (node.incarnation, digest)
        self.place = place
        self.slot = slot
        self.births = births

    @classmethod
    def read(cls, node: Node, request: ListBlocksRequest) -> "_Token":
        """Return the request's token, or that of a first page."""
        wanted = ListBlocksRequest()
        wanted.CopyFrom(request)
        wanted.ClearField("page_token")
        wanted.ClearField("page_size")
        digest = xxh3_64_intdigest(wanted.SerializeToString(deterministic=True))
        token, count = request.page_token, len(node.tiers)
        if not token:
            return cls(node, digest, 0, 0, [tier.occupancy.births for tier in node.tiers])
        if len(token) == _TOKEN.size + count * _BIRTH.size:
            *head, place, slot = _TOKEN.unpack_from(token)
            if head == [node.incarnation, digest] and place < count:
                births = [number for (number,) in _BIRTH.iter_unpack(token[_TOKEN.size :])]
                return cls(node, digest, place, slot, births)
        raise invalid(
            f"page_token {quote(token)} was not given by this life of node {node.node_id} for this "
            "filter: start the listing over",
            Reason.PAGE_TOKEN_INVALID,
        )

    def encode(self) -> bytes:
        """Return the token as it travels."""
        births = b"".join(map(_BIRTH.pack, self.births))
        return _TOKEN.pack(*self._head, self.place, self.slot) + births


def _window(tier: Tier, token: _Token, room: int, passes: Callable[[Origin], bool]) -> list[int]:
    """Return at most `room` slots of one window, and move the token behind them."""
    table, newest = tier.table, token.births[token.place]
    found = [
        slot
        for slot in ready_slots(table, token.slot)
        if table.birth[slot].number <= newest and passes(table.origin[slot])
    ]
    token.slot = found[room] if len(found) > room else token.slot + WINDOW
    return found[:room]


def _filter(node: Node, request: ListBlocksRequest) -> Callable[[Origin], bool]:
    namespace = node.registry.get(request.namespace) if request.namespace else None
    group = request.group if request.HasField("group") else None
    scope = read_scope(request.scope) if request.HasField("scope") else None
    if namespace is not None and group is not None:
        read_group(namespace, group)

    def passes(origin: Origin) -> bool:
        space = origin.space
        return (
            (namespace is None or space.namespace is namespace)
            and (group is None or space.group == group)
            and (scope is None or space.scope == scope)
        )

    return passes


def _page_size(asked: int) -> int:
    if asked < 0:
        raise invalid(f"page_size is {asked}; it must be 0 for the default, or more")
    return min(asked or _DEFAULT_PAGE, _MAX_PAGE)


def _leases_on(node: Node, key: bytes) -> Sequence[BlockLease]:
    now = node.clock.monotonic()
    found = []
    for lease in node.leases:
        slot = lease.tier.table.index.get(key)
        if slot is not None and slot in lease.slots.values():
            left = Duration()
            left.FromNanoseconds(max(0, int((lease.expires - now) * 1e9)))
            found.append(
                BlockLease(owner=lease.owner, tier=lease.tier.name, kind=lease.kind, remaining=left)
            )
    return found
