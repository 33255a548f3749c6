"""Certificates and tokens are renewed while clients go on: nothing is lost, nothing is cut."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from kvtier.client import (
    Backoff,
    BlockingNodeClient,
    BlockingTieringProxy,
    Credentials,
    KvtierError,
    NodeClient,
    Watch,
)
from kvtier.v1.event_service_pb2 import SourceState, WatchEventsResponse
from tests.certificates import Authority
from tests.waiting import until

from .callers import CallerFiles, trust
from .conftest import Follow, Serve
from .folding import Fold, listed
from .secured import SOON, Files, token_auth, write_tokens
from .support import Serving, blocks_of, cpu_tier, payloads, run


@asynccontextmanager
async def at_work(node: Serving) -> AsyncIterator[None]:
    """Store and look up in the background; a call that fails fails the test at the end."""
    done, rounds = asyncio.Event(), count()

    async def work() -> None:
        while not done.is_set():
            block = next(rounds)
            await node.client.store("cpu0", node.namespace, [run(block)], payloads(block))
            await node.client.lookup(node.namespace, [blocks_of(block)])

    working = asyncio.create_task(work())
    try:
        yield
    finally:
        done.set()
        await working
    assert next(rounds) > 1


async def renewed(node: Serving, credentials: Credentials) -> None:
    """Wait until the client's calls go by what its files hold now."""
    before = credentials.identity()
    await until(lambda: credentials.identity() is not before, SOON)
    await node.client.get_node()


async def answered(endpoint: str, credentials: Credentials) -> bool:
    try:
        async with NodeClient(endpoint, credentials=credentials) as client:
            await client.get_node()
    except KvtierError:
        return False
    return True


async def until_answered(node: Serving, credentials: Credentials, *, wanted: bool = True) -> None:
    """Wait until a node answers such a caller, or does not any more."""
    async with asyncio.timeout(SOON):
        while await answered(node.endpoint, credentials) is not wanted:  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.02)


async def no_loss(follower: Fold, node: Serving) -> None:
    """Fail when a follower's view is not what the node lists, or when it had to start over."""
    assert follower.view == await listed(node.client)
    assert len(follower.resets) == 1


@pytest.fixture
def old() -> Authority:
    return Authority("old")


@pytest.fixture
def new() -> Authority:
    return Authority("new")


@pytest.fixture
def server(tmp_path: Path, old: Authority) -> Files:
    """The files of the node."""
    return Files(tmp_path, old)


@pytest.fixture
def outsider(tmp_path: Path, old: Authority, new: Authority) -> CallerFiles:
    """The files of another client, which the new authority knows."""
    outsider = CallerFiles(tmp_path / "outsider")
    outsider.be_issued_by(new)
    outsider.trust(old, new)
    return outsider


@pytest.fixture
def caller(tmp_path: Path, old: Authority) -> CallerFiles:
    """The files of the client."""
    caller = CallerFiles(tmp_path / "caller")
    caller.trust(old)
    caller.be_issued_by(old)
    return caller


def tls(server: Files) -> dict[str, str]:
    settings: dict[str, str] = server.settings()
    return {name: path for name, path in settings.items() if name != "crl"}


@pytest.mark.slow
async def test_another_authority_takes_over_while_work_goes_on(
    serve: Serve, follow: Follow, server: Files, caller: CallerFiles, outsider: CallerFiles
) -> None:
    """Both sides trust both authorities, get certificates of the new one, and leave the old one.

    Every store and lookup succeeds meanwhile, and the watch, which the node ends when it trusts
    the old authority no more, goes on without a reset.
    """
    old, new = server.authority, outsider.authority
    credentials = caller.certificates()
    node = await serve(cpu_tier(4), tls=tls(server), credentials=credentials)
    follower = await follow(node)

    async with at_work(node):
        caller.trust(old, new)
        trust(server.ca, [old, new])
        await until_answered(node, outsider.certificates())
        await renewed(node, credentials)
        caller.be_issued_by(new)
        await renewed(node, credentials)
        server.show(new.server())
        outsider.trust(new)
        await until_answered(node, outsider.certificates())
        caller.trust(new)
        await renewed(node, credentials)
        trust(server.ca, [new])
        outsider.be_issued_by(old)
        await until_answered(node, outsider.certificates(), wanted=False)
        await follower.settle()
    await follower.settle()

    await no_loss(follower.fold, node)


@pytest.mark.slow
async def test_another_token_takes_over_while_work_goes_on(
    serve: Serve, follow: Follow, tmp_path: Path
) -> None:
    """The node knows both for a while; then the first is forgotten, and nobody is thrown out."""
    caller = CallerFiles(tmp_path / "caller")
    caller.have_token("first")
    credentials = Credentials(token_file=caller.token)
    node = await serve(cpu_tier(4), auth=token_auth(tmp_path, "first"), credentials=credentials)
    follower = await follow(node)

    async with at_work(node):
        write_tokens(tmp_path / "tokens", "first", "second")
        await until_answered(node, Credentials(token="second"))
        caller.have_token("second")
        await renewed(node, credentials)
        write_tokens(tmp_path / "tokens", "second")
        await until_answered(node, Credentials(token="first"), wanted=False)
        await follower.settle()
    await follower.settle()

    await no_loss(follower.fold, node)


async def told_down(watch: Watch, fold: Fold) -> str:
    """Read until the source is DOWN, and return why."""
    while True:
        message = await anext(watch)
        if message.state.source == SourceState.SOURCE_STATE_DOWN:
            return message.state.reason
        take(fold, message)


def take(fold: Fold, message: WatchEventsResponse) -> None:
    if not message.HasField("state") or message.state.tier:
        fold.apply(message)


async def test_a_watch_without_a_valid_identity_says_so_and_waits(
    serve: Serve, tmp_path: Path
) -> None:
    """It is DOWN with the reason, tries again with pauses, and goes on once there is a token."""
    caller, fold = CallerFiles(tmp_path / "caller"), Fold()
    caller.have_token("first")
    credentials = Credentials(token_file=caller.token)
    auth = token_auth(tmp_path, "first", "other")
    node = await serve(cpu_tier(4), auth=auth, credentials=credentials)
    refused = node.server.serving.security.failures.counts
    backoff = Backoff(base=0.2, cap=0.5, random=lambda: 1.0)
    async with asyncio.timeout(4 * SOON), Watch(node.client, backoff=backoff) as watch:
        while not fold.synced:
            take(fold, await anext(watch))
        write_tokens(tmp_path / "tokens", "other")
        reason = await told_down(watch, fold)
        started = asyncio.get_running_loop().time()
        await until(lambda: refused["bad_token"] >= 3, SOON)
        took = asyncio.get_running_loop().time() - started
        async with NodeClient(node.endpoint, credentials=Credentials(token="other")) as other:
            await other.store("cpu0", node.namespace, [run(1)], payloads(1))
            head = (await other.get_node()).head.sequence
        caller.have_token("other")
        while fold.through < head:
            take(fold, await anext(watch))

    assert "token" in reason
    assert node.endpoint in reason
    assert took >= 0.6
    await no_loss(fold, node)


async def test_a_static_token_that_is_refused_ends_a_watch(serve: Serve, tmp_path: Path) -> None:
    """Nothing can renew it, so trying again cannot help."""
    node = await serve(
        cpu_tier(4), auth=token_auth(tmp_path, "first"), credentials=Credentials(token="first")
    )
    async with NodeClient(node.endpoint, credentials=Credentials(token="second")) as client:
        with pytest.raises(KvtierError, match="BAD_TOKEN"):
            async for _ in Watch(client):
                pass


async def test_streams_under_way_stay_where_they_are(
    serve: Serve, server: Files, caller: CallerFiles, old: Authority
) -> None:
    """New calls go over a new connection; the old one is closed when its last stream has ended."""
    credentials = caller.certificates()
    node = await serve(cpu_tier(4), tls=tls(server), credentials=credentials)
    async with NodeClient(node.endpoint, timeout=0.2, credentials=credentials) as client:
        stream = client.watch_events()
        await anext(stream)
        first = client._connection.link
        caller.be_issued_by(old)
        before = credentials.identity()
        await until(lambda: credentials.identity() is not before, SOON)
        await client.get_node()
        second = client._connection.link
        for _ in range(5):
            await anext(stream)
        both = first.connected and second.connected
        await stream.aclose()
        await until(lambda: not client._connection._left, SOON)

    assert first is not second
    assert both
    assert not first.connected


async def test_callers_that_block_show_who_they_are(
    serve: Serve, server: Files, caller: CallerFiles
) -> None:
    """The blocking client and the blocking proxy go over TLS with the same credentials."""
    credentials = caller.certificates()
    node = await serve(cpu_tier(4), tls=tls(server), credentials=credentials)

    def block() -> tuple[str, list[str]]:
        with (
            BlockingNodeClient(node.endpoint, credentials=credentials) as client,
            BlockingTieringProxy(node.endpoint, credentials=credentials) as proxy,
        ):
            proxy.lookup(node.namespace, [blocks_of(1)])
            return client.get_node().node_id, [source.endpoint for source in proxy.sources]

    assert await asyncio.to_thread(block) == (node.node.node_id, [node.endpoint])
