"""Replaying a trace against two tiers of a node, and counting what the events of each tell."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

from kvtier.cli.checking.verify import compare
from kvtier.cli.exit import CommandError
from kvtier.cli.follow import Follower, TierKey, following
from kvtier.cli.replay import Chain, make_chains, not_stored
from kvtier.cli.trace import Request
from kvtier.client import NodeClient
from kvtier.v1.block_pb2 import BlockRun, BlockSet
from kvtier.v1.result_pb2 import CompleteResult, LookupResult, StoreOutcome

_GOOD = frozenset(
    {
        (StoreOutcome.STORE_OUTCOME_WRITE, CompleteResult.COMPLETE_RESULT_STORED),
        (StoreOutcome.STORE_OUTCOME_PRESENT, CompleteResult.COMPLETE_RESULT_NOT_LEASED),
        (StoreOutcome.STORE_OUTCOME_DEFERRED, CompleteResult.COMPLETE_RESULT_NOT_LEASED),
    }
)


class Tiers(NamedTuple):
    """Where a replay stores: the faster tier, the slower one, a namespace, its block size."""

    gpu: str
    cpu: str
    namespace: bytes
    block_bytes: int


@dataclass(frozen=True)
class TwoTierReport:
    """What a replay against two tiers came to.

    Attributes:
        requests: Requests replayed.
        blocks: Blocks in them, counted each time that they were asked for.
        gpu_hits: Blocks in the prefixes that the lookups found in the faster tier.
        cpu_hits: Blocks by which the prefixes over both tiers were longer.
        gpu_stored: Blocks that the events told to be stored in the faster tier.
        gpu_removed: Blocks that they told to be removed there.
        cpu_stored: The same of the slower tier.
        cpu_removed: The same of the slower tier.
        view_equals_listing: The view of a follower is, for every tier, exactly the node's listing.
        requests_per_s: Requests a second, until the follower had heard of the last.
        elapsed_s: Seconds for it.
    """

    requests: int
    blocks: int
    gpu_hits: int
    cpu_hits: int
    gpu_stored: int
    gpu_removed: int
    cpu_stored: int
    cpu_removed: int
    view_equals_listing: bool
    requests_per_s: float
    elapsed_s: float


async def replay_two_tiers(
    client: NodeClient,
    tiers: Tiers,
    requests: Iterable[Request],
    advance: Callable[[int], None] = lambda _count: None,
) -> TwoTierReport:
    """Replay requests one after the other and return what came of it.

    For each request in order: look up its whole chain and touch it; load the prefix that the tiers
    have together from the faster one, brought up where it is in the slower; offer the whole chain
    to the faster one and write what is asked for.

    Args:
        client: The node.
        tiers: Where to store.
        requests: The requests.
        advance: Called after each request with 1, to show progress.

    Raises:
        CommandError: When a load or store was not carried out in full, or events were missed.
        KvtierError: When a call fails.
    """
    follower = Follower()
    async with following(client, follower):
        node_id = (await client.get_node()).node_id
        start = perf_counter()
        sums = {"requests": 0, "blocks": 0, "gpu_hits": 0, "cpu_hits": 0}
        for chain in make_chains(requests, tiers.block_bytes):
            gpu, union = await _serve(client, tiers, chain)
            sums["requests"] += 1
            sums["blocks"] += chain.blocks
            sums["gpu_hits"] += gpu
            sums["cpu_hits"] += union - gpu
            advance(1)
        await follower.arrival.reach(node_id, (await client.get_node()).head)
        elapsed = perf_counter() - start
        comparison = await compare(client, follower)
        follower.require_no_gaps(client.endpoint)
        gpu_tier, cpu_tier = TierKey(node_id, tiers.gpu), TierKey(node_id, tiers.cpu)
        return TwoTierReport(
            **sums,
            gpu_stored=follower.stored[gpu_tier],
            gpu_removed=follower.removed[gpu_tier],
            cpu_stored=follower.stored[cpu_tier],
            cpu_removed=follower.removed[cpu_tier],
            view_equals_listing=comparison.equal,
            requests_per_s=round(sums["requests"] / elapsed, 1),
            elapsed_s=round(elapsed, 3),
        )


async def _serve(client: NodeClient, tiers: Tiers, chain: Chain) -> tuple[int, int]:
    """Play one request; return the prefixes that the faster tier has, and that both have."""
    blocks, request_id = [BlockSet(block_hashes=chain.hashes)], str(chain.number)
    answer = await client.lookup(tiers.namespace, blocks)
    found = answer.chains[0]
    gpu = found.prefix_lengths[list(answer.tiers).index(tiers.gpu)]
    union = found.union_prefix_length
    await client.touch(tiers.namespace, blocks, request_id=request_id)
    lease = None
    if union:
        prefix = [BlockSet(block_hashes=chain.prefix(union))]
        loaded = await client.prepare_load(
            tiers.gpu, tiers.namespace, prefix, request_id=request_id, promote=True, wait=True
        )
        if set(loaded.results) != {LookupResult.LOOKUP_RESULT_HIT}:
            raise CommandError(client.endpoint, f"request {request_id} was not loaded in full")
        lease = loaded.lease
    await _store(client, tiers, chain)
    if lease is not None:
        await client.complete_load(lease)
    return gpu, union


async def _store(client: NodeClient, tiers: Tiers, chain: Chain) -> None:
    run = BlockRun(block_hashes=chain.hashes)
    offer = await client.prepare_store(
        tiers.gpu, tiers.namespace, [run], request_id=str(chain.number)
    )
    wanted = {
        place: chain.payloads[place]
        for place, outcome in enumerate(offer.outcomes)
        if outcome == StoreOutcome.STORE_OUTCOME_WRITE
    }
    if wanted:
        await client.write_blocks(offer.lease, wanted, [tiers.block_bytes] * chain.blocks)
    done = await client.complete_store(offer.lease, wait_copies=True)
    if not _GOOD.issuperset(zip(offer.outcomes, done.results, strict=True)):
        raise not_stored(client.endpoint, chain, offer.outcomes)
