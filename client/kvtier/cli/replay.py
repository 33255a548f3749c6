"""Replaying a trace against one tier, and counting what its events tell."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

from kvtier.cli.exit import CommandError
from kvtier.cli.follow import Follower, TierKey
from kvtier.cli.hashing import HASH_WIDTH, block_hash, payload
from kvtier.cli.trace import Request
from kvtier.cli.verify import compare
from kvtier.client import NodeClient, Watch
from kvtier.v1.block_pb2 import BlockRun, BlockSet
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.v1.result_pb2 import StoreOutcome, WriteResult
from kvtier.wire.errors import KvtierError

TOKENS_PER_BLOCK = 512


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


@asynccontextmanager
async def following(client: NodeClient) -> AsyncIterator[Follower]:
    """Follow a node, from when the view is in sync until the end of the block."""
    follower = Follower()
    task = asyncio.create_task(_pump(client, follower))
    try:
        await follower.reach((await client.get_node()).node_id)
        yield follower
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _pump(client: NodeClient, follower: Follower) -> None:
    try:
        async with Watch(client) as watch:
            async for message in watch:
                follower.apply(message)
    except KvtierError as error:
        follower.fail(error)


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
    async with following(client) as follower:
        node_id = (await client.get_node()).node_id
        done = blocks = hits = 0
        start = perf_counter()
        for number, request in enumerate(requests):
            hits += await replay_request(client, target, number, request)
            blocks += len(request.hash_ids)
            done += 1
            advance(1)
        head = (await client.get_node()).head
        await follower.reach(node_id, head.sequence)
        elapsed = perf_counter() - start
        comparison = await compare(client, follower)
        if follower.gaps:
            what = f"the event stream began anew {follower.gaps} times, so that counts are missing"
            raise CommandError(client.endpoint, what, "replay again, on a node without other load")
        key = TierKey(node_id, target.tier)
        return Report(
            requests=done,
            blocks=blocks,
            prefix_hits=hits,
            stored=follower.stored[key],
            removed=follower.removed[key],
            resident_end=follower.resident(key),
            view_equals_listing=comparison.equal,
            requests_per_s=round(done / elapsed, 1),
            elapsed_s=round(elapsed, 3),
        )


async def replay_request(client: NodeClient, target: Target, number: int, request: Request) -> int:
    """Look up and store one request's chain; return the length of the prefix that was there."""
    hashes = [block_hash(block_id) for block_id in request.hash_ids]
    packed = b"".join(hashes)
    answer = await client.lookup(target.namespace, [BlockSet(block_hashes=packed)])
    prefixes: dict[str, int] = dict(zip(answer.tiers, answer.chains[0].prefix_lengths, strict=True))
    payloads = [payload(digest, target.block_bytes) for digest in hashes]
    report = await client.store(
        target.tier,
        target.namespace,
        [BlockRun(block_hashes=packed)],
        payloads,
        request_id=str(number),
    )
    if not _GOOD.issuperset(zip(report.outcomes, report.results, strict=True)):
        raise CommandError(client.endpoint, f"request {number} was not stored in full")
    return prefixes[target.tier]


_GOOD = frozenset(
    {
        (StoreOutcome.STORE_OUTCOME_WRITE, WriteResult.WRITE_RESULT_STORED),
        (StoreOutcome.STORE_OUTCOME_PRESENT, WriteResult.WRITE_RESULT_UNSPECIFIED),
    }
)
