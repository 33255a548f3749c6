"""Whatever seed Python hashes its texts with, a node finds what another process of it stored."""

import os
from pathlib import Path

import pytest

from kvtier.client import NodeClient, scope_of
from tests.contract.grounds import Directory
from tests.contract.support import ANY_TIER, blocks_of, namespace, payloads, run

from .processes import ENVIRONMENT, NodeProcess, end, recovered

SEEDS = ("0", "1", "random")
PLAIN = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONHASHSEED"}
CHAIN = range(8)


@pytest.mark.slow
async def test_processes_of_other_seeds_find_the_same_blocks(tmp_path: Path) -> None:
    """Each adds a chain of its own adapter, and reads those of all before it."""
    ground = Directory(tmp_path / "blocks")
    config = {
        "node_id": f"seeds-{os.getpid()}",
        "listen": "127.0.0.1:0",
        "drain_timeout": 0,
        "tiers": [ground.tier()],
    }
    names: set[str] = set()

    for life, seed in enumerate(SEEDS):
        environment = PLAIN | {"PYTHONHASHSEED": seed}
        node = await NodeProcess.start(tmp_path, config, environment=environment)
        try:
            async with NodeClient(node.endpoint) as client:
                await recovered(client)
                for adapter in SEEDS[:life]:
                    assert await load(client, adapter) == payloads(*CHAIN)
                assert await load(client, seed) == [None] * len(CHAIN)
                await store(client, seed)
            assert await node.terminate() == 0
        finally:
            await end(node.process)
        assert names < ground.names(), "what was there has its name still"
        names = ground.names()

    assert len(names) == len(SEEDS) * len(CHAIN)


async def store(client: NodeClient, adapter: str) -> None:
    """Store the chain of an adapter."""
    offered = run(*CHAIN, scope=scope_of(adapter=adapter), adapter_name=adapter)
    fingerprint = await client.register_namespace(namespace())
    await client.store(ANY_TIER, fingerprint, [offered], payloads(*CHAIN))


async def load(client: NodeClient, adapter: str) -> list[bytes | None]:
    """Load the chain of an adapter."""
    wanted = blocks_of(*CHAIN, scope=scope_of(adapter=adapter))
    fingerprint = await client.register_namespace(namespace())
    return list((await client.load(ANY_TIER, fingerprint, [wanted])).payloads)
