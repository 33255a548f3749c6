"""A node with a great many files answers at once, and says what it does not know yet."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from kvtier.client import NodeClient, UnavailableError
from kvtier.server.lasting.files import FileShelf
from kvtier.server.lasting.record import encode_header
from kvtier.v1.event_service_pb2 import TierState
from kvtier.v1.result_pb2 import LookupResult
from kvtier.v1.tier_pb2 import Tier
from kvtier.wire.namespaces import fingerprint
from tests.contract.filed import FILES, files_tier
from tests.contract.support import (
    BLOCK_BYTES,
    blocks_of,
    cpu_tier,
    namespace,
    payloads,
    run,
    words,
)
from tests.lasting.lives import record_of

from .conftest import StartNode
from .disks import SmallDisk, small_disk
from .processes import NodeProcess

MANY = 20_000
OLDEST, NEWEST, ABSENT = 0, MANY - 1, "absent"
FINGERPRINT = fingerprint(namespace())
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Seen(NamedTuple):
    """What a node said at one moment: of its health before, and of its tier after the lookup."""

    live: int
    ready: int
    oldest: str
    newest: str
    absent: str
    tier: Tier


@pytest.fixture(name="disk")
def _disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A disk in memory, and on it a tier's directory with many blocks of zeros."""
    where = tmp_path / "disk"
    where.mkdir()
    with small_disk(where, "256m") as disk:
        shelf = FileShelf(disk.seen / "files", sync="none")
        shelf.describe(FINGERPRINT.hex(), namespace().SerializeToString())
        zeros = bytes(BLOCK_BYTES)
        for block in range(MANY):
            record = record_of(block, block + 1)
            shelf.put(record.name, [encode_header(record), zeros])
        shelf.close()
        yield disk


async def look(client: NodeClient, health: health_pb2_grpc.HealthStub) -> Seen:
    async def check(service: str) -> int:
        answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
        return int(answer.status)

    live, ready = await check("liveness"), await check("")
    chains = [blocks_of(block) for block in (OLDEST, NEWEST, ABSENT)]
    found = await client.lookup(FINGERPRINT, chains, include_blocks=True)
    oldest, newest, absent = (words(LookupResult, chain.results)[0] for chain in found.chains)
    return Seen(live, ready, oldest, newest, absent, (await client.list_tiers())[-1])


async def watch_start(node: NodeProcess) -> list[Seen]:
    """Ask a node again and again until its tier is ready."""
    seen: list[Seen] = []
    async with (
        NodeClient(node.endpoint) as client,
        grpc.aio.insecure_channel(node.endpoint) as channel,
    ):
        health: health_pb2_grpc.HealthStub = health_pb2_grpc.HealthStub(channel)
        seen.append(await look(client, health))
        with pytest.raises(UnavailableError, match="TIER_RECOVERING"):
            await client.store(FILES, FINGERPRINT, [run("new")], payloads("new"))
        await client.store("cpu0", FINGERPRINT, [run("new")], payloads("new"))
        while seen[-1].tier.state == TierState.TIER_STATE_RECOVERING:
            seen.append(await look(client, health))
        seen.append(await look(client, health))
    return seen


def rises(numbers: Sequence[int]) -> bool:
    return list(numbers) == sorted(numbers) and len(set(numbers)) > 2


@pytest.mark.slow
async def test_a_node_answers_while_it_finds_out_what_it_holds(
    start_node: StartNode, tmp_path: Path, disk: SmallDisk
) -> None:
    """It lives, is not ready, knows the newest first, and tells how far it is."""
    files = files_tier(tmp_path / "disk" / "files", capacity="1GiB", io_threads=1)
    node = await start_node(prefix=disk.prefix, tiers=[cpu_tier(8), files])

    *early, _, last = await watch_start(node)

    assert {seen.live for seen in [*early, last]} == {SERVING}
    recovering = [s for s in early if s.tier.state == TierState.TIER_STATE_RECOVERING]
    assert {seen.ready for seen in recovering} == {NOT_SERVING}
    assert {seen.absent for seen in recovering[:-1]} == {"RETRY"}
    assert any((seen.newest, seen.oldest) == ("HIT", "RETRY") for seen in recovering)
    assert rises([seen.tier.recovered_blocks for seen in recovering])
    assert {seen.tier.recovering_blocks for seen in recovering} <= {0, MANY}
    assert last.ready == SERVING
    assert (last.oldest, last.newest, last.absent) == ("HIT", "HIT", "MISS")
    assert (last.tier.ready_blocks, last.tier.recovered_blocks) == (MANY, MANY)
