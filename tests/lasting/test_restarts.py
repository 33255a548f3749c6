"""What a node has in files is there again after every kind of end, as it was."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kvtier.client import NodeClient
from kvtier.server.config import NodeConfig
from kvtier.server.lasting.files import FileShelf
from kvtier.server.lasting.record import Record, encode_header
from kvtier.server.lifecycle import TierServer
from kvtier.v1.event_service_pb2 import TierState
from kvtier.v1.result_pb2 import LookupResult
from kvtier.wire.namespaces import fingerprint
from tests.contract.folding import listed
from tests.contract.follower import Follower
from tests.contract.support import blocks_of, hash_set, namespace, words
from tests.faults.processes import NodeProcess, end, recovered
from tests.waiting import until

from .lives import COST, FS, chain, fs_tier

NAMES = tuple(range(12))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory as a node leaves it, with the twelve blocks of a chain."""
    directory = tmp_path / FS
    write(directory, chain(*NAMES))
    return directory


def write(directory: Path, records: Sequence[Record]) -> None:
    shelf = FileShelf(directory, sync="none")
    shelf.describe(fingerprint(namespace()).hex(), namespace().SerializeToString())
    for record in records:
        shelf.put(record.name, [encode_header(record), bytes(record.size)], lambda: True)
    shelf.close()


def config(directory: Path, blocks: int = 100, **fields: Any) -> dict[str, object]:
    tier = fs_tier(blocks, **{"directory": str(directory), **fields})
    return {
        "node_id": f"restart-{os.getpid()}",
        "listen": "127.0.0.1:0",
        "tiers": [tier],
        "drain_timeout": 0,
    }


@asynccontextmanager
async def serving(settings: dict[str, object]) -> AsyncIterator[NodeClient]:
    """Run a node until the end of the body; it has found what it holds."""
    server = TierServer(NodeConfig.model_validate(settings))
    await server.start()
    try:
        async with NodeClient(server.address) as client:
            await until(lambda: not server.node.tiers[0].health.recovering)
            yield client
    finally:
        await server.drain_and_stop()


def files(directory: Path) -> dict[Path, tuple[int, int]]:
    """Tell of every block's file which one it is and when it was written."""
    return {
        path: (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in directory.rglob("*-*")
        if path.is_file()
    }


async def look_up(client: NodeClient) -> list[str]:
    answer = await client.lookup(fingerprint(namespace()), [blocks_of(*NAMES)], include_blocks=True)
    return words(LookupResult, answer.chains[0].results)


async def test_everything_is_back_without_a_word_of_the_engine(directory: Path) -> None:
    """Namespaces too; nobody registers one, and no file is written again or read through."""
    before = files(directory)
    assert len(before) == len(NAMES)
    for _ in range(3):
        async with serving(config(directory)) as client:
            assert await look_up(client) == ["HIT"] * len(NAMES)
            assert [each.name for each in await client.list_namespaces()] == ["llama"]
            (tier,) = await client.list_tiers()
            assert (tier.state, tier.ready_blocks) == (TierState.TIER_STATE_READY, len(NAMES))
            assert tier.recovered_blocks == tier.recovering_blocks == len(NAMES)

    assert files(directory) == before


async def test_a_follower_of_the_new_life_sees_what_is_listed(directory: Path) -> None:
    """The snapshot shows every block that was found, with its parent and position."""
    async with serving(config(directory)) as client, Follower(client) as follower:
        assert follower.fold.view == await listed(client)
        assert {key.block_hash for key in follower.fold.view} == hash_set(NAMES)


@pytest.mark.parametrize(
    "changed",
    [{"policy": "arc"}, {"io_threads": 1}, {"store_threshold": 2}, {"events": False}],
    ids=str,
)
async def test_other_settings_cost_no_block(directory: Path, changed: dict[str, Any]) -> None:
    """What the tier holds does not depend on how it is used."""
    async with serving(config(directory)):
        pass

    async with serving(config(directory, **changed)) as client:
        assert await look_up(client) == ["HIT"] * len(NAMES)


async def test_less_room_keeps_the_newest(directory: Path) -> None:
    """The tier starts within its new capacity, and the files of the others are gone."""
    async with serving(config(directory, blocks=5)) as client:
        assert await look_up(client) == ["MISS"] * 7 + ["HIT"] * 5
        (tier,) = await client.list_tiers()
        assert tier.counters.trimmed == 7
        assert tier.used_bytes <= 5 * COST
        assert len(files(directory)) == 5


async def test_files_that_were_damaged_are_gone(directory: Path) -> None:
    """Half a file, an empty one and one of other bytes are no blocks, and no reason to stop."""
    half, empty, other = sorted(files(directory))[:3]
    os.truncate(half, half.stat().st_size // 2)
    os.truncate(empty, 0)
    other.write_bytes(b"\0" * other.stat().st_size)

    async with serving(config(directory)) as client:
        (tier,) = await client.list_tiers()
        assert (tier.ready_blocks, tier.counters.corrupt) == (len(NAMES) - 3, 3)

    assert not {half, empty, other} & set(files(directory))


async def test_damage_that_no_load_comes_upon_is_found(directory: Path) -> None:
    """A start reads no payload; the check in the background does, and drops what is not whole."""
    spoiled = min(files(directory))
    spoiled.write_bytes(spoiled.read_bytes()[:-1] + b"x")

    async with serving(config(directory)) as client:
        async with asyncio.timeout(20):
            while (tier := (await client.list_tiers())[0]).counters.scrubbed < len(NAMES):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)

    assert (tier.ready_blocks, tier.counters.corrupt) == (len(NAMES) - 1, 1)
    assert spoiled not in files(directory)


async def test_a_killed_node_has_its_blocks_again(tmp_path: Path, directory: Path) -> None:
    """SIGKILL leaves the files as they are, and the directory free."""
    before = files(directory)
    node = await NodeProcess.start(tmp_path, config(directory))
    try:
        async with NodeClient(node.endpoint) as client:
            await recovered(client)
            assert await look_up(client) == ["HIT"] * len(NAMES)
        await node.kill()

        node = await node.start_again()
        async with NodeClient(node.endpoint) as client:
            await recovered(client)
            assert await look_up(client) == ["HIT"] * len(NAMES)
        assert await node.terminate() == 0
        assert files(directory) == before
    finally:
        await end(node.process)


async def test_a_node_that_is_killed_while_it_looks_begins_again(
    tmp_path: Path, directory: Path
) -> None:
    """A start that does not come to its end leaves nothing that the next one minds."""
    write(directory, chain(*range(100, 2100), first=100))
    node = await NodeProcess.start(tmp_path, config(directory, blocks=3000))
    try:
        await node.kill()
        node = await node.start_again()
        async with NodeClient(node.endpoint) as client:
            await recovered(client)
            (tier,) = await client.list_tiers()
            assert tier.ready_blocks == 2000 + len(NAMES)
    finally:
        await end(node.process)
