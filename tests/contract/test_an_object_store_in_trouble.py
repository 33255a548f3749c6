"""A node whose objects cannot be reached says why, and works with its other tiers meanwhile."""

import asyncio
import os
import re
import socket
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvtier.client import KvtierError, NodeClient
from kvtier.v1.event_service_pb2 import TierState
from kvtier.v1.result_pb2 import ReadResult, WriteResult
from kvtier.v1.tier_pb2 import Tier
from tests.faults.processes import NodeProcess, end, start_server
from tests.s3 import faults
from tests.s3.faults import Fault, Kind
from tests.s3.relay import Relay
from tests.s3.server import KEY, SECRET, S3Server, s3_client
from tests.s3.shelves import Place
from tests.waiting import until

from .conftest import Follow, Serve
from .folding import listed
from .grounds import Directory, Prefix
from .support import Serving, blocks_of, cpu_tier, hash_set, namespace, payloads, run, words

CPU, FS, OBJ = "cpu0", "fs0", "obj0"
DENIED = Fault(Kind.STATUS, 403, "AccessDenied")


@pytest.fixture(name="prefix")
def _prefix(place: Place, relay: Relay) -> Prefix:
    """A prefix that a node reaches through the relay."""
    return Prefix(place, relay.endpoint)


def assert_no_secret(text: str) -> None:
    """See that neither the key nor the secret is in a text."""
    assert not [secret for secret in (KEY, SECRET) if secret in text]


def own_name() -> str:
    """The name of the one node of a test: two of a name would share their memory."""
    return f"trouble-{os.getpid()}"


def states(tiers: Iterable[Tier]) -> dict[str, str]:
    """The state of each tier, with its reason."""
    return {
        tier.name: f"{TierState.Name(tier.state).removeprefix('TIER_STATE_')} {tier.state_reason}"
        for tier in tiers
    }


def three_tiers(tmp_path: Path, prefix: Prefix, **fields: Any) -> list[dict[str, object]]:
    """Memory that writes through to files and to objects."""
    return [
        cpu_tier(20, write_through=[FS, OBJ]),
        Directory(tmp_path / FS).tier(FS),
        prefix.tier(OBJ, io_timeout=1.0, **fields),
    ]


async def settled(node: Serving) -> None:
    """Wait until nothing is copied any more."""
    await until(lambda: not node.node.tiering.jobs)


async def state_comes_to(client: NodeClient, state: str) -> str:
    """Wait until the tier of objects says so of itself; return what all tiers said last."""
    return await state_matches(client, re.escape(state))


async def state_matches(client: NodeClient, pattern: str) -> str:
    """Wait until what the tier of objects says of itself is like that; return what all said."""
    async with asyncio.timeout(20):
        while not re.fullmatch(pattern, (said := states(await client.list_tiers()))[OBJ]):
            assert_no_secret(str(said))
            await asyncio.sleep(0.05)
    return str(said)


async def other_tiers_work(node: Serving, *blocks: object) -> None:
    """Store in memory and files, and load from both."""
    await node.store(*blocks)
    await settled(node)
    for tier in (CPU, FS):
        assert await node.load(*blocks, tier=tier) == payloads(*blocks)


async def start_and_fail(tmp_path: Path, tier: dict[str, object]) -> str:
    """Start a node that does not come up; return all that it wrote."""
    config = {"node_id": own_name(), "listen": "127.0.0.1:0", "tiers": [cpu_tier(2), tier]}
    process = await start_server(tmp_path, config, environment=os.environ)
    try:
        async with asyncio.timeout(30):
            out, _ = await process.communicate()
    finally:
        await end(process)
    assert process.returncode == 1
    assert out == b"", "it never said that it serves"
    return (tmp_path / f"{own_name()}.log").read_text()


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A bucket of a server that knows none of the keys of these tests."""
    with S3Server({"INITIAL_NO_AUTH_ACTION_COUNT": "1"}) as server:
        s3_client(server.endpoint).create_bucket(Bucket="kvtier-denied")
        yield Place(server.endpoint, "kvtier-denied")


@pytest.mark.parametrize("what", ["bucket", "scheme"])
async def test_a_setting_that_cannot_be_right_ends_the_start(
    tmp_path: Path, place: Place, what: str
) -> None:
    """One line names the tier, what is wrong and what to check; no secret is in it."""
    tier = Prefix(place).tier(OBJ)
    if what == "bucket":
        tier["url"] = "s3://kvtier-nowhere/prefix"
        expected = "bucket kvtier-nowhere does not exist; create it"
    else:
        tier["endpoint"] = place.endpoint.replace("http:", "https:")
        expected = f"{tier['endpoint']} does not speak TLS; check"

    said = await start_and_fail(tmp_path, tier)

    (error,) = [line for line in said.splitlines() if line.startswith("error:")]
    assert error.startswith(f"error: tier {OBJ}: ")
    assert expected in error
    assert "Traceback" not in said
    assert_no_secret(said)


async def test_credentials_that_are_refused_end_the_start(tmp_path: Path, strict: Place) -> None:
    """The line says so, and has neither the key nor the secret."""
    said = await start_and_fail(tmp_path, Prefix(strict).tier(OBJ))

    assert f"error: tier {OBJ}: " in said
    assert "access denied (InvalidAccessKeyId); check the credentials" in said
    assert_no_secret(said)


async def test_nobody_at_the_port_delays_the_start_only(
    serve: Serve, follow: Follow, tmp_path: Path, place: Place
) -> None:
    """The other tiers work; what is offered to objects is refused, and nothing is a miss yet."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
        node = await serve(*three_tiers(tmp_path, Prefix(place, endpoint)), recover=False)
        await state_comes_to(node.client, f"RECOVERING no answer from {endpoint}")

        await other_tiers_work(node, "a", "b")
        with pytest.raises(KvtierError) as refused:
            await node.store("c", tier=OBJ)

        assert (refused.value.reason, refused.value.code.name) == ("TIER_RECOVERING", "UNAVAILABLE")
        assert await node.look_up("a", "c") == ["HIT", "RETRY"]
        follower = await follow(node)
        assert follower.fold.view == await listed(node.client)


async def test_objects_are_found_once_the_server_answers(
    serve: Serve, follow: Follow, tmp_path: Path, prefix: Prefix, relay: Relay
) -> None:
    """A node that started without them hears of them later, and tells its followers."""
    tiers = three_tiers(tmp_path, prefix)
    node = await serve(*tiers)
    await node.store("a", "b", "c")
    await settled(node)
    assert await node.held(OBJ) == hash_set("abc")
    await node.server.drain_and_stop()
    relay.down()
    node = await node.again(serve, *tiers, recover=False)
    follower = await follow(node)
    await state_comes_to(node.client, f"RECOVERING no answer from {relay.endpoint}")
    assert await node.load("a", tier=FS) == payloads("a")

    relay.up()
    await state_comes_to(node.client, "READY ")

    assert await node.held(OBJ) == hash_set("abc")
    await follower.settle()
    assert follower.fold.view == await listed(node.client)
    assert await node.load("a", "b", "c", tier=OBJ) == payloads("a", "b", "c")


@pytest.mark.parametrize("status", [403, 503])
async def test_a_server_that_refuses_later_is_read_only_until_it_does_not(
    serve: Serve, follow: Follow, tmp_path: Path, prefix: Prefix, relay: Relay, *, status: int
) -> None:
    """The reason is told; blocks are kept, not lost; then the same blocks load again."""
    reason = "access denied" if status == 403 else f"server error {status}"
    node = await serve(*three_tiers(tmp_path, prefix))
    await node.store("a", "b")
    await settled(node)
    follower = await follow(node)
    relay.plan = faults.always(Fault(Kind.STATUS, status, "AccessDenied" if status == 403 else ""))

    failed = await node.client.store(OBJ, node.namespace, [run("c")], payloads("c"))
    read = await node.client.load(OBJ, node.namespace, [blocks_of("a")])
    await state_comes_to(node.client, f"READ_ONLY {reason}")
    with pytest.raises(KvtierError, match=f"{OBJ} is read-only: {reason}") as refused:
        await node.store("d", tier=OBJ)
    await other_tiers_work(node, "e", "f")

    assert words(WriteResult, failed.results) == ["FAILED"]
    assert words(ReadResult, read.results) == ["FAILED"]
    assert (refused.value.reason, refused.value.code.name) == (
        "TIER_READ_ONLY",
        "FAILED_PRECONDITION",
    )
    assert await node.held(OBJ) == hash_set("ab")
    assert (await node.tier(OBJ)).counters.lost == 0
    relay.plan = faults.none
    await state_comes_to(node.client, "READY ")
    assert await node.load("a", "b", tier=OBJ) == payloads("a", "b")
    await node.store("c", tier=OBJ)
    assert await node.load("c", tier=OBJ) == payloads("c")
    await follower.settle()
    assert follower.fold.view == await listed(node.client)
    assert_no_secret(str(refused.value))


async def test_no_secret_is_in_the_log_of_a_node(
    tmp_path: Path, prefix: Prefix, relay: Relay
) -> None:
    """Through a start, a refusal whose answer repeats the request, and a stop."""
    config = {
        "node_id": own_name(),
        "listen": "127.0.0.1:0",
        "log_level": "debug",
        "drain_timeout": 0,
        "tiers": three_tiers(tmp_path, prefix),
    }
    node = await NodeProcess.start(tmp_path, config, environment=os.environ)
    try:
        async with NodeClient(node.endpoint) as client:
            fingerprint = await client.register_namespace(namespace())
            relay.plan = faults.always(DENIED)
            await client.store(CPU, fingerprint, [run("a", "b")], payloads("a", "b"))
            said = await state_comes_to(client, "READ_ONLY access denied")
        code = await node.terminate()
    finally:
        await end(node.process)

    assert code == 0
    assert "access denied" in node.log
    assert_no_secret(said + node.log)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (DENIED, "access denied"),
        (Fault(Kind.HANG), "(request timed out|it does not answer)"),
        (Fault(Kind.RESET), "the connection to http://127.0.0.1:[0-9]+ broke"),
    ],
    ids=["denied", "hanging", "reset"],
)
async def test_memory_goes_on_without_the_objects_below_it(
    serve: Serve, follow: Follow, prefix: Prefix, relay: Relay, *, fault: Fault, reason: str
) -> None:
    """No store or lookup waits long; what is evicted is dropped and counted; then it goes down."""
    memory = cpu_tier(4, on_evict=OBJ, free_target=0, demote_wait=0.1, promotion_limit=1)
    node = await serve(memory, prefix.tier(OBJ, io_timeout=1.0))
    await node.store(*range(4))
    await node.store(4)
    await until(lambda: not node.node.tiering.jobs)
    kept = await node.held(OBJ)
    assert len(kept) == 1
    follower = await follow(node)
    relay.plan = faults.always(fault)

    longest = 0.0
    for block in range(10, 30):
        begun = time.monotonic()
        await node.store(block)
        assert await node.look_up(block) == ["HIT"]
        longest = max(longest, time.monotonic() - begun)
    said = await state_matches(node.client, f"READ_ONLY {reason}")

    assert_no_secret(said)
    assert longest < 1
    assert await node.held(OBJ) == kept
    assert (await node.tier(CPU)).counters.dropped > 10
    relay.plan = faults.none
    relay.freed.set()
    await state_matches(node.client, "READY ")
    for block in range(40, 48):
        await node.store(block)
        await until(lambda: not node.node.tiering.jobs)
    assert kept < await node.held(OBJ)
    await follower.settle()
    assert follower.fold.view == await listed(node.client)
