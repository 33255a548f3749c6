"""Nodes pull from peers, and proxies follow nodes, over TLS and with a certificate of their own."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from kvtier.client import Credentials, NodeClient
from kvtier.proxy.config import ProxyConfig
from kvtier.proxy.lifecycle import ProxyServer
from kvtier.server.config import ConfigError, NodeConfig
from kvtier.server.lifecycle import TierServer
from kvtier.v1.copying_pb2 import PeerTier
from kvtier.v1.event_service_pb2 import SourceState
from kvtier.wire.errors import KvtierError, Reason
from tests.certificates import Authority, Issued
from tests.waiting import until

from .callers import CallerFiles, trust
from .conftest import Serve
from .copying import copy_blocks
from .proxies import ServeProxy, in_sync, serve_proxy
from .secured import SOON, Files
from .support import Serving, blocks_of, cpu_tier, payloads, run

__all__ = ["serve_proxy"]

GRANTS = [{"identity": "spiffe://cluster/*", "role": "admin"}]


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def server(tmp_path: Path, authority: Authority) -> Files:
    """The files of the nodes."""
    return Files(tmp_path, authority)


def caller_of(directory: Path, authority: Authority, name: str) -> CallerFiles:
    caller = CallerFiles(directory / name, f"spiffe://cluster/{name}")
    caller.trust(authority)
    caller.be_issued_by(authority)
    return caller


@pytest.fixture
def operator(tmp_path: Path, authority: Authority) -> Credentials:
    """Whose calls the test makes."""
    return caller_of(tmp_path, authority, "operator").certificates()


@pytest.fixture
def own(tmp_path: Path, authority: Authority) -> CallerFiles:
    """The files by which a node or a proxy connects to others."""
    return caller_of(tmp_path, authority, "own")


@pytest.fixture
async def peer(serve: Serve, server: Files, operator: Credentials) -> Serving:
    """A node with some blocks, which wants certificates."""
    node = await serve(cpu_tier(8), tls=tls(server), auth={"grants": GRANTS}, credentials=operator)
    await node.client.store("cpu0", node.namespace, [run(1, 2)], payloads(1, 2))
    return node


def tls(server: Files) -> dict[str, str]:
    return {"cert": str(server.cert), "key": str(server.key), "client_ca": str(server.ca)}


async def pull(node: Serving, peer: Serving, *blocks: int) -> list[str]:
    source = (peer.endpoint, "cpu0")
    return (await copy_blocks(node, run(*blocks), peer=source, to="cpu0")).results


async def why_no_pull(node: Serving, peer: Serving) -> KvtierError:
    """Return why blocks cannot be pulled."""
    answers = node.client.copy(
        node.namespace,
        [run(1)],
        to_tier="cpu0",
        from_peer=PeerTier(endpoint=peer.endpoint, tier="cpu0"),
    )
    with pytest.raises(KvtierError) as caught:
        async for _ in answers:
            pass
    return caught.value


async def test_blocks_are_pulled_over_tls(serve: Serve, peer: Serving, own: CallerFiles) -> None:
    """The peer sees the certificate of the node, and lets it read."""
    node = await serve(cpu_tier(8), peers=[peer.endpoint], connect=own.settings())

    assert await pull(node, peer, 1, 2) == ["COPIED", "COPIED"]


async def test_pulls_go_on_under_a_new_certificate(
    serve: Serve, peer: Serving, own: CallerFiles, server: Files
) -> None:
    """The node reads its files again when they change; it is never started anew for that."""
    new = Authority("new")
    settings = {"peers": [peer.endpoint], "peer_pause": 0, "connect": own.settings()}
    node = await serve(cpu_tier(8), **settings)
    assert await pull(node, peer, 1) == ["COPIED"]

    own.be_issued_by(new)
    trust(server.ca, [new])
    async with asyncio.timeout(SOON):
        while await told_or_failed(node, peer) != ["COPIED"]:  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.05)


async def told_or_failed(node: Serving, peer: Serving) -> list[str]:
    """Pull another block; return nothing while the old certificate is refused, or still taken."""
    await node.client.clear("cpu0", force=True)
    line = node.node.peers.get(peer.endpoint)._line
    try:
        told = await pull(node, peer, 2)
    except KvtierError:
        return []
    return told if node.node.peers.get(peer.endpoint)._line is not line else []


def _trust_another(own: CallerFiles) -> str:
    own.trust(Authority("other"))
    return "shows a certificate of an authority that is not trusted here"


def _show_another(own: CallerFiles) -> str:
    own.be_issued_by(Authority("other"))
    return "ended the TLS handshake; it may want a client certificate"


@pytest.mark.parametrize("go_wrong", [_trust_another, _show_another])
async def test_a_pull_that_cannot_agree_on_tls_says_why(
    serve: Serve, peer: Serving, own: CallerFiles, go_wrong: Callable[[CallerFiles], str]
) -> None:
    """It is refused like one from a peer out of reach, in words that tell what to look at."""
    words = go_wrong(own)
    node = await serve(cpu_tier(8), peers=[peer.endpoint], connect=own.settings())

    error = await why_no_pull(node, peer)

    assert error.reason == Reason.PEER_UNREACHABLE
    assert f"peer {peer.endpoint} {words}" in error.message


async def test_a_pull_in_plaintext_from_a_peer_with_tls_says_so(
    serve: Serve, peer: Serving
) -> None:
    """A node without `connect` hears that the peer may serve TLS."""
    node = await serve(cpu_tier(8), peers=[peer.endpoint])

    error = await why_no_pull(node, peer)

    assert "may serve TLS" in error.message


def node_ids(proxy: ProxyServer) -> set[str]:
    return {each.relay.node_id for each in proxy.relays.carried()}


async def test_a_proxy_follows_nodes_over_tls(
    serve_proxy: ServeProxy, peer: Serving, own: CallerFiles
) -> None:
    """It tells what the node told, and looks up there."""
    proxy = await serve_proxy(peer.endpoint, connect=own.settings())

    async with NodeClient(proxy.address) as client:
        answer = await client.lookup(peer.namespace, [blocks_of(1, 2, 3)])

    assert answer.chains[0].union_prefix_length == 2


async def test_a_proxy_of_proxies_follows_over_tls(
    serve_proxy: ServeProxy, peer: Serving, server: Files, own: CallerFiles
) -> None:
    """Each shows its certificate to the next."""
    settings = {"connect": own.settings(), "tls": tls(server), "auth": {"grants": GRANTS}}
    inner = await serve_proxy(peer.endpoint, **settings)
    outer = await serve_proxy(inner.address, connect=own.settings())

    await until(lambda: node_ids(outer) == {peer.node.node_id}, SOON)


@pytest.fixture
async def behind_a_name(serve: Serve, tmp_path: Path, authority: Authority) -> Serving:
    """A node whose certificate has a name, and not its address."""
    (tmp_path / "named").mkdir()
    files = Files(tmp_path / "named", authority)
    files.show(authority.issue(["localhost"]))
    caller = caller_of(tmp_path, authority, "caller")
    named = caller.certificates().named("localhost")
    return await serve(cpu_tier(8), tls=tls(files), credentials=named)


async def test_nodes_behind_a_name_show_that_name(
    serve_proxy: ServeProxy, peer: Serving, behind_a_name: Serving, own: CallerFiles
) -> None:
    """They are called by their addresses, which their certificates need not have."""
    behind = behind_a_name
    port = behind.endpoint.rpartition(":")[2]

    proxy = await serve_proxy(
        peer.endpoint, secondaries_dns=f"localhost:{port}", connect=own.settings(), wait=False
    )
    await until(lambda: len(proxy.relays.carried()) == 2 and in_sync(proxy), SOON)

    assert node_ids(proxy) == {peer.node.node_id, behind.node.node_id}


async def test_a_proxy_goes_on_under_a_new_certificate(
    serve_proxy: ServeProxy, peer: Serving, own: CallerFiles, server: Files, operator: Credentials
) -> None:
    """A node that trusts the old authority no more sends it off, and it comes back."""
    new = Authority("new")
    proxy = await serve_proxy(peer.endpoint, connect=own.settings())
    refused = peer.server.serving.security.failures.counts
    own.be_issued_by(new)
    trust(server.ca, [new])
    await until(lambda: refused["revoked"], SOON)
    (source,) = proxy.proxy.sources
    await until(lambda: proxy.proxy.sources[0].state == SourceState.SOURCE_STATE_LIVE, SOON)

    assert source.endpoint == peer.endpoint
    assert in_sync(proxy)


def _broken(directory: Path, authority: Authority) -> tuple[dict[str, str], str]:
    other: Issued = authority.issue(["x"])
    own = caller_of(directory, authority, "own")
    own.key.write_bytes(other.key)
    return own.settings(), f"connect: {own.key} is not the key of the certificate in {own.cert}"


def test_a_file_that_cannot_be_used_stops_a_start(tmp_path: Path, authority: Authority) -> None:
    """Neither a node nor a proxy starts; the one line names the setting, the file and the flaw."""
    connect, message = _broken(tmp_path, authority)
    shared = {"node_id": "n", "listen": "127.0.0.1:0", "connect": connect}
    node = NodeConfig.model_validate({**shared, "tiers": [cpu_tier(1)]})
    proxy = ProxyConfig.model_validate({**shared, "primary": "127.0.0.1:1"})

    with pytest.raises(ConfigError) as of_node:
        TierServer(node)
    with pytest.raises(ConfigError) as of_proxy:
        ProxyServer(proxy)

    assert str(of_node.value) == str(of_proxy.value) == message
