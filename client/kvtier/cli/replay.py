"""Replaying a trace against one tier, and counting what its events tell."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

from kvtier.cli.checking.verify import compare
from kvtier.cli.exit import CommandError
from kvtier.cli.follow import Follower, TierKey, following
from kvtier.cli.hashing import HASH_WIDTH, block_hash, payload
from kvtier.cli.trace import TOKENS_PER_BLOCK, Request
from kvtier.client import NodeClient
from kvtier.v1.block_pb2 import BlockRun, BlockSet
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.v1.result_pb2 import StoreOutcome, WriteResult


class Target(NamedTuple):
    """Where a replay stores: a tier, a namespace that is registered there, its block size."""

    tier: str
    namespace: bytes
    block_bytes: int


@dataclass(frozen=True)
class Report:
    """What a replay came to.

    Attributes:
        requests: Requests replayed.
        blocks: Blocks in them, counted each time that they were asked for.
        prefix_hits: Blocks in the prefixes that the lookups found, each before its own store.
        stored: Blocks that the events told to be stored.
        removed: Blocks that the events told to be removed.
        resident_end: Blocks that a follower of the events knows in the tier at the end.
        view_equals_listing: That follower's view of every tier is exactly the node's listing.
        requests_per_s: Requests a second, until the follower had heard of the last.
        elapsed_s: Seconds for it.
    """

    requests: int
    blocks: int
    prefix_hits: int
    stored: int
    removed: int
    resident_end: int
    view_equals_listing: bool
    requests_per_s: float
    elapsed_s: float


def replay_namespace(block_bytes: int) -> Namespace:
    """Return the namespace of replayed blocks, one for each block size."""
    return Namespace(
        name=f"replay-{block_bytes}",
        model="replay",
        dtype="uint8",
        layout="opaque",
        tokens_per_block=TOKENS_PER_BLOCK,
        block_bytes=[block_bytes],
        tp_size=1,
        pp_size=1,
        hash_algorithm="sha256-of-id",
        hash_width=HASH_WIDTH,
    )


async def replay(
    client: NodeClient,
    target: Target,
    requests: Iterable[Request],
    advance: Callable[[int], None] = lambda _count: None,
) -> Report:
    """Replay requests one after the other and return what came of it.

    For each request in order: look up its whole chain, then offer the whole chain and write what
    is asked for, with the request's number as its id.

    Args:
        client: The node.
        target: Where to store.
        requests: The requests.
        advance: Called after each request with 1, to show progress.

    Raises:
        CommandError: When a store was not carried out in full, or events were missed.
        KvtierError: When a call fails.
    """
    follower = Follower()
    async with following(client, follower):
        node_id = (await client.get_node()).node_id
        start = perf_counter()
        sums = await _serve_all(client, target, requests, advance)
        await follower.arrival.reach(node_id, (await client.get_node()).head)
        elapsed = perf_counter() - start
        comparison = await compare(client, follower)
        follower.require_no_gaps(client.endpoint)
        key = TierKey(node_id, target.tier)
        return Report(
            **sums,
            stored=follower.stored[key],
            removed=follower.removed[key],
            resident_end=follower.resident(key),
            view_equals_listing=comparison.equal,
            requests_per_s=round(sums["requests"] / elapsed, 1),
            elapsed_s=round(elapsed, 3),
        )


class Chain(NamedTuple):
    """What a request sends."""

    number: int
    blocks: int
    hashes: bytes
    payloads: list[bytes]

    def prefix(self, blocks: int) -> bytes:
        """Return the hashes of the first blocks."""
        return self.hashes[: blocks * HASH_WIDTH]


def make_chains(requests: Iterable[Request], block_bytes: int) -> Iterator[Chain]:
    """Make what each request sends, one after the other."""
    for number, request in enumerate(requests):
        hashes = [block_hash(block_id) for block_id in request.hash_ids]
        payloads = [payload(digest, block_bytes) for digest in hashes]
        yield Chain(number, len(hashes), b"".join(hashes), payloads)


async def _serve_all(
    client: NodeClient,
    target: Target,
    requests: Iterable[Request],
    advance: Callable[[int], None],
) -> dict[str, int]:
    chains = make_chains(requests, target.block_bytes)
    sums = {"requests": 0, "blocks": 0, "prefix_hits": 0}
    chain = next(chains, None)
    while chain is not None:
        sums["requests"] += 1
        sums["blocks"] += chain.blocks
        sums["prefix_hits"] += await _lookup(client, target, chain)
        storing = asyncio.create_task(_store(client, target, chain))
        # Once the store is sent, the next chain is made while the node works.
        await asyncio.sleep(0)
        try:
            chain = next(chains, None)
        finally:
            await storing
        advance(1)
    return sums


async def _lookup(client: NodeClient, target: Target, chain: Chain) -> int:
    """Return the length of the prefix that the tier has."""
    answer = await client.lookup(target.namespace, [BlockSet(block_hashes=chain.hashes)])
    place = list(answer.tiers).index(target.tier)
    return answer.chains[0].prefix_lengths[place]


async def _store(client: NodeClient, target: Target, chain: Chain) -> None:
    run = BlockRun(block_hashes=chain.hashes)
    report = await client.store(
        target.tier, target.namespace, [run], chain.payloads, request_id=str(chain.number)
    )
    if not _GOOD.issuperset(zip(report.outcomes, report.results, strict=True)):
        raise not_stored(client.endpoint, chain, report.outcomes)


def not_stored(endpoint: str, chain: Chain, outcomes: Sequence[int]) -> CommandError:
    """Return the error that says why a request was not stored in full, as far as one can tell."""
    what = f"request {chain.number} was not stored in full"
    if StoreOutcome.STORE_OUTCOME_MISMATCH not in outcomes:
        return CommandError(endpoint, what)
    place = list(outcomes).index(StoreOutcome.STORE_OUTCOME_MISMATCH)
    why = f"{what}: entry {place} of its hash_ids stood behind another block before (MISMATCH)"
    return CommandError(endpoint, why, "in a trace each id stands for a block and all before it")


_GOOD = frozenset(
    {
        (StoreOutcome.STORE_OUTCOME_WRITE, WriteResult.WRITE_RESULT_STORED),
        (StoreOutcome.STORE_OUTCOME_PRESENT, WriteResult.WRITE_RESULT_UNSPECIFIED),
        (StoreOutcome.STORE_OUTCOME_DEFERRED, WriteResult.WRITE_RESULT_UNSPECIFIED),
    }
)
