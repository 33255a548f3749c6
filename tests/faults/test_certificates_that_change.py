"""Certificates, authorities and tokens change under a crowd of followers."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from kvtier.wire.errors import Reason
from tests.certificates import Authority, replace
from tests.contract.secured import (
    Files,
    Watching,
    outcome,
    secure_wire,
    token_auth,
    watching,
    write_tokens,
)
from tests.contract.wire import Wire
from tests.waiting import until

from .conftest import StartNode, StartProxy
from .processes import NodeProcess, refused

ROUNDS = 6
PATIENCE = 20.0


async def serve_both(
    start_node: StartNode, start_proxy: StartProxy, **settings: object
) -> list[NodeProcess]:
    """A node and a proxy that serve alike; the proxy is of another node, which takes anybody."""
    behind = await start_node()
    node = await start_node(**settings)
    return [node, await start_proxy(behind.endpoint, **settings)]


@pytest.mark.slow
async def test_rotations_drop_nobody_who_is_still_trusted(
    start_node: StartNode, start_proxy: StartProxy, tmp_path: Path
) -> None:
    """In each round the server's certificate is new, and an authority comes with its callers.

    When the first authority goes, its followers are ended, and nobody else is.
    """
    authorities = [Authority(f"authority {number}") for number in range(ROUNDS)]
    first = authorities[0]
    files = Files(tmp_path, first)
    servers = await serve_both(start_node, start_proxy, tls={**files.settings(), "crl": None})
    followers: dict[Authority, list[Watching]] = {}
    async with AsyncExitStack() as stack:
        for count, authority in enumerate(authorities, 1):
            replace(files.ca, b"".join(each.cert for each in authorities[:count]))
            files.show(first.server())
            caller = authority.issue(uris=["spiffe://cluster/engine"])
            for server in servers:
                wire = await stack.enter_async_context(secure_wire(server.endpoint, first, caller))
                await is_let_in(wire)
                follower = await stack.enter_async_context(watching(wire))
                followers.setdefault(authority, []).append(follower)
        await all_go_on(followers)

        replace(files.ca, b"".join(each.cert for each in authorities[1:]))
        for dropped in followers.pop(first):
            ended = await dropped.ended()
            assert (ended.code.name, ended.reason) == ("UNAUTHENTICATED", Reason.REVOKED)
        await all_go_on(followers)

    for server in servers:
        assert "cannot be used" not in server.log


async def is_let_in(wire: Wire) -> None:
    """Wait until calls are answered."""
    async with asyncio.timeout(PATIENCE):
        while await outcome(wire, "TierService.GetNode", b"") != "OK":  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.1)


async def all_go_on(followers: dict[Authority, list[Watching]]) -> None:
    """Wait until each follower has heard something more."""
    await asyncio.gather(*(each.goes_on() for some in followers.values() for each in some))


@pytest.mark.slow
async def test_a_crowd_of_revoked_followers_leaves_others_alone(
    start_node: StartNode, start_proxy: StartProxy, tmp_path: Path
) -> None:
    """Many streams on one connection end, by certificate or by token, within seconds."""
    authority = Authority()
    files = Files(tmp_path, authority)
    auth = token_auth(tmp_path, "old", "kept")
    servers = await serve_both(start_node, start_proxy, tls=files.settings(), auth=auth)
    bad, good = (authority.issue(uris=[f"spiffe://cluster/{name}"]) for name in ("bad", "good"))
    callers = {"revoked": (bad, None), "token": (good, "old"), "kept": (good, "kept")}
    async with AsyncExitStack() as stack:
        followers: dict[str, list[Watching]] = {name: [] for name in callers}
        for server in servers:
            for name, (caller, token) in callers.items():
                wire = await stack.enter_async_context(
                    secure_wire(server.endpoint, authority, caller, token)
                )
                for _ in range(10):
                    follower = await stack.enter_async_context(watching(wire))
                    followers[name].append(follower)

        replace(files.crl, authority.revoke([bad.certificate]))
        write_tokens(tmp_path / "tokens", "kept")
        for follower in followers["revoked"] + followers["token"]:
            assert (await follower.ended()).reason == Reason.REVOKED
        for follower in followers["kept"]:
            await follower.goes_on()

    for server in servers:
        told = [line for line in server.log.splitlines() if '"event": "refused"' in line]
        assert len(told) == 10


@pytest.mark.slow
@pytest.mark.parametrize("module", ["kvtier.server", "kvtier.proxy"])
async def test_a_server_does_not_start_in_plaintext_instead(tmp_path: Path, module: str) -> None:
    """A broken file, or settings that ask for more than there is, end the process at once."""
    files = Files(tmp_path, Authority())
    config = {"node_id": "refused", "listen": "127.0.0.1:0"}
    if module == "kvtier.proxy":
        config["primary"] = "192.0.2.1:7600"
    replace(files.key, Authority().server().key)

    code, told = await refused(tmp_path, {**config, "tls": files.settings()}, module=module)
    assert code == 2
    assert told.startswith(f"error: tls: {files.key} is not the key of the certificate")

    mutual = {"client_ca": str(files.ca)}
    code, told = await refused(tmp_path, {**config, "tls": mutual}, module=module)
    assert code == 2
    assert "tls.cert: missing" in told


@pytest.mark.slow
async def test_a_certificate_ends_while_nothing_happens(
    start_node: StartNode, tmp_path: Path
) -> None:
    """No file changes, and no call is made: the stream ends all the same, by the clock."""
    authority = Authority()
    files = Files(tmp_path, authority)
    node = await start_node(tls=files.settings())
    short = authority.issue(uris=["spiffe://cluster/engine"], lasts=timedelta(seconds=6))
    async with secure_wire(node.endpoint, authority, short) as wire, watching(wire) as follower:
        await until(lambda: follower.error, PATIENCE)

    assert follower.error is not None
    assert follower.error.reason == Reason.REVOKED
