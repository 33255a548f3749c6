"""SIGTERM ends a node in order: the last events, a goodbye to its followers, exit code 0."""

import asyncio

from kvtier.client import AbortedError, NodeClient, Reason, UnavailableError
from tests.contract.following import following
from tests.contract.support import block_hash, cpu_tier, namespace, payloads, run

from .conftest import StartNode


async def store_until_refused(client: NodeClient, fingerprint: bytes) -> set[bytes]:
    """Store block after block; return those whose store was confirmed."""
    stored: set[bytes] = set()
    while True:
        block = len(stored)
        try:
            await client.store("cpu0", fingerprint, [run(block)], payloads(block))
        except (UnavailableError, AbortedError):
            return stored
        stored.add(block_hash(block))


async def test_a_stopped_node_told_all_that_it_confirmed(start_node: StartNode) -> None:
    """Every store that a caller knows of is in the stream that ends with DRAINING."""
    node = await start_node(tiers=[cpu_tier(65536)], drain_timeout=5)
    async with NodeClient(node.endpoint) as client, following(node.endpoint) as follower:
        fingerprint = await client.register_namespace(namespace())
        storing = asyncio.create_task(store_until_refused(client, fingerprint))
        await follower.until(lambda: len(follower.fold.view) > 50)

        code = await node.terminate()

        confirmed = await storing
        await follower.until(lambda: follower.error)

    assert code == 0
    assert follower.error is not None
    assert (follower.error.code.name, follower.error.reason) == ("UNAVAILABLE", Reason.DRAINING)
    assert confirmed <= {key.block_hash for key in follower.fold.view}
    assert len(confirmed) > 50
