"""A node with something of everything: tiers, blocks, leases of each kind."""

from dataclasses import dataclass
from typing import Any

from google.protobuf.duration_pb2 import Duration

from kvtier.client.mapped.file import open_shared
from kvtier.server.operations import describing
from kvtier.v1.block_pb2 import BlockRun, BlockSet, Lease
from kvtier.v1.listing_pb2 import (
    ListBlocksRequest,
    ListBlocksResponse,
)
from kvtier.v1.tier_service_pb2 import (
    PrepareStoreRequest,
)

from .conftest import Serve
from .support import TOKENS, Serving, cpu_tier, gpu_tier, hashes, namespace, payload, run
from .wire import METHODS, wire

# Stands for a lease id that was not used before.
NEW_LEASE = b"a new lease's id"
OWNER, SCOPE, TTL = "engine-1", b"tenant", Duration(seconds=20, nanos=1)
NAMESPACE = namespace("everything", keep_token_ids=True, tp_rank=1, pp_rank=1, tp_size=2, pp_size=2)
NAMESPACE.hash_seed = b"seed"
SETTINGS: dict[str, Any] = {
    "tiers": [gpu_tier(16), cpu_tier(16)],
    "limits": {"hashes": 64, "leases_per_owner": 16, "pin_ttl_max": 900},
}


@dataclass
class Scene:
    """What the good requests speak of.

    Attributes:
        node: The node.
        namespace: The fingerprint of a namespace of which there are blocks.
        store: A store lease on one block that is not written.
        load: A load lease on a block.
        pin: A pin on a block.
        mapping: A mapping of the tier `cpu0`, which is locked.
        page_token: The token of a second page of one block.
        peer: The address of a node that has the offered blocks.
    """

    node: Serving
    namespace: bytes
    store: Lease
    load: Lease
    pin: Lease
    mapping: int = 0
    page_token: bytes = b""
    peer: str = ""

    def blocks(self) -> list[BlockSet]:
        """The resident blocks, and one that is not there."""
        return [BlockSet(group=1, scope=SCOPE, block_hashes=hashes("a", "b", "absent"))]

    def offer(self) -> PrepareStoreRequest:
        """An offer of two blocks behind the resident ones."""
        return PrepareStoreRequest(
            tier="cpu0",
            namespace=self.namespace,
            runs=[chain("c", "d", after="b", start=2 * TOKENS)],
            lease_id=NEW_LEASE,
            owner=OWNER,
            ttl=TTL,
            request_id="request-1",
            locate=True,
            mapping=self.mapping,
        )

    def state(self) -> tuple[object, ...]:
        """Everything that a refused call must leave as it is."""
        node = self.node.node
        about = describing.get_node(node).node
        tiers = describing.list_tiers(node).tiers
        for tier in tiers:
            for count in ("refused", "mismatched", "abandoned"):
                tier.counters.ClearField(count)
        return (
            about.SerializeToString(),
            [tier.SerializeToString() for tier in tiers],
            describing.list_namespaces(node).SerializeToString(),
            len(node.spaces),
            node.transfers,
            node.closing,
        )

    async def strike(self) -> None:
        """Remove everything and let every lease expire: what is left then has leaked."""
        node = self.node
        for tier in ("gpu0", "cpu0"):
            await node.client.clear(tier, force=True)
        # Leases expire with the first, and are forgotten with the second.
        for _ in range(2):
            node.clock.advance(1000)
            about = await node.client.get_node()
        tiers = await node.client.list_tiers()
        left = [
            (t.ready_blocks, t.pending_blocks, t.draining_blocks, t.quarantined_blocks)
            for t in tiers
        ]
        assert left == [(0, 0, 0, 0), (0, 0, 0, 0)]
        assert (about.leases, about.followers, node.node.transfers) == (0, 0, 0)
        assert len(node.node.spaces) == 0


def chain(*blocks: object, **fields: Any) -> BlockRun:
    """An offer of blocks with every field set."""
    offer = run(*blocks, group=1, scope=SCOPE, **fields)
    offer.token_ids.extend(range(TOKENS * len(blocks)))
    offer.adapter_name = "adapter"
    return offer


async def map_for_good(node: Serving) -> int:
    """Map the tier `cpu0` until the node ends, and return the mapping's number."""
    told = await node.client.map_tier("cpu0")
    node.kept.append(open_shared(told.shared_file, None))
    return told.mapping


async def serve_scene(serve: Serve, **settings: Any) -> Scene:
    """Serve a node, and one that it may pull blocks from, and set the scene."""
    peer = await serve(cpu_tier(16))
    fingerprint = await peer.client.register_namespace(NAMESPACE)
    offered = [chain("c", "d", after="b", start=2 * TOKENS)]
    await peer.client.store("cpu0", fingerprint, offered, [payload("c"), payload("d")])
    return await set_scene(await serve(**SETTINGS | settings, peers=[peer.endpoint]))


async def set_scene(node: Serving) -> Scene:
    """Store two blocks, open one lease of each kind, and pin a block."""
    client = node.client
    fingerprint = await client.register_namespace(NAMESPACE)
    await client.store("cpu0", fingerprint, [chain("a", "b")], [payload("a"), payload("b")])
    runs = [chain("w", after="a", start=TOKENS)]
    mapping = await map_for_good(node)
    store = await client.prepare_store("cpu0", fingerprint, runs, mapping=mapping)
    pinned = [BlockSet(group=1, scope=SCOPE, block_hashes=hashes("a"))]
    load = await client.prepare_load("cpu0", fingerprint, pinned)
    (peer,) = node.node.config.peers
    pin = await client.pin("cpu0", fingerprint, pinned, ttl=500)
    scene = Scene(node, fingerprint, store.lease, load.lease, pin.lease, mapping, peer=peer)
    async with wire(node.endpoint) as raw:
        (page,) = (
            await raw.call(METHODS["TierService.ListBlocks"], ListBlocksRequest(page_size=1))
        ).answers
    scene.page_token = ListBlocksResponse.FromString(page).next_page_token
    return scene
