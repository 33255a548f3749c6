"""TLS: what a server shows, whose certificates it takes, and what happens when files change."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from cryptography import x509
from structlog.testing import capture_logs

from kvtier.wire.errors import Reason
from tests.certificates import Authority, Issued, replace
from tests.waiting import until

from .conftest import Serve
from .proxies import ServeProxy, serve_proxy
from .secured import (
    SOON,
    Files,
    grant,
    outcome,
    secure_wire,
    token_auth,
    watching,
)

__all__ = ["serve_proxy"]

ENGINE, OPS = "spiffe://cluster/engine", "spiffe://cluster/ops"
Start = Callable[..., Awaitable[Any]]


@pytest.fixture
def authority() -> Authority:
    """Who stands for servers and callers."""
    return Authority()


@pytest.fixture
def files(tmp_path: Path, authority: Authority) -> Files:
    """The files of the server."""
    return Files(tmp_path, authority)


@pytest.fixture
def engine(authority: Authority) -> Issued:
    """A caller's certificate."""
    return authority.issue(uris=[ENGINE])


@pytest.fixture(params=["node", "proxy"])
def start(request: pytest.FixtureRequest, serve: Serve, serve_proxy: ServeProxy) -> Start:
    """Start a server of each kind with settings."""

    async def started(**settings: Any) -> Any:
        if request.param == "node":
            return (await serve(register=False, **settings)).server
        behind = await serve()
        return await serve_proxy(behind.endpoint, **settings)

    return started


async def shown_by(endpoint: str) -> x509.Certificate:
    """The certificate that a server shows in a new handshake."""
    host, _, port = endpoint.rpartition(":")
    pem = await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)), timeout=SOON)
    return x509.load_pem_x509_certificate(pem.encode())


async def get_node(server: Any, *who: Any, **more: Any) -> str:
    """How a call on a new connection ends."""
    async with secure_wire(server.address, *who, **more) as wire:
        return await outcome(wire, "TierService.GetNode", b"")


async def test_a_server_with_tls_speaks_nothing_else(start: Start, files: Files) -> None:
    """A caller in plaintext, or one that trusts another authority, gets no answer."""
    server = await start(tls=files.settings(callers=False))

    assert await get_node(server, files.authority) == "OK"
    assert await get_node(server) == "UNAVAILABLE"
    assert await get_node(server, Authority()) == "UNAVAILABLE"


async def test_callers_must_have_a_certificate_of_an_authority(
    start: Start, files: Files, engine: Issued
) -> None:
    """Else they do not even get a connection."""
    server = await start(tls=files.settings())
    strangers = [None, Authority().issue(uris=[ENGINE]), files.authority.issue(
        uris=[ENGINE], lasts=timedelta(minutes=-1))]  # fmt: skip

    assert await get_node(server, files.authority, engine) == "OK"
    for stranger in strangers:
        assert await get_node(server, files.authority, stranger) == "UNAVAILABLE"


async def test_a_certificate_that_names_nobody_is_refused(start: Start, files: Files) -> None:
    """Every call then, with what to do."""
    server = await start(tls=files.settings())

    assert await get_node(server, files.authority, files.authority.issue()) == "UNAUTHENTICATED"


async def test_a_role_is_of_the_identity_in_the_certificate(
    start: Start, files: Files, engine: Issued
) -> None:
    """A caller that sends a token besides is the token's."""
    auth = token_auth(files.ca.parent, "ops", grants=[grant("token:ops", "reader")])
    server = await start(tls=files.settings(), auth=auth)

    assert await get_node(server, files.authority, engine) == "PERMISSION_DENIED"
    assert await get_node(server, files.authority, engine, token="ops") == "OK"
    assert await get_node(server, files.authority, engine, token="no") == "UNAUTHENTICATED"


async def test_tokens_need_no_certificate_of_the_caller(start: Start, files: Files) -> None:
    """TLS of the server alone keeps them secret."""
    auth = token_auth(files.ca.parent, "ops")
    server = await start(tls=files.settings(callers=False), auth=auth)

    assert await get_node(server, files.authority, token="ops") == "OK"
    assert await get_node(server, files.authority) == "UNAUTHENTICATED"


async def test_a_new_certificate_is_shown_without_a_restart(
    start: Start, files: Files, engine: Issued
) -> None:
    """Also when the key is written after it; streams that there are go on."""
    server = await start(tls=files.settings())
    new = files.authority.server()
    async with (
        secure_wire(server.address, files.authority, engine) as wire,
        watching(wire) as follower,
    ):
        before = await shown_by(server.address)
        replace(files.cert, new.cert)
        await follower.goes_on()
        replace(files.key, new.key)
        async with asyncio.timeout(SOON):
            while await shown_by(server.address) != new.certificate:
                await follower.goes_on()

        assert before != new.certificate
        await follower.goes_on()
        assert await outcome(wire, "TierService.GetNode", b"") == "OK"
        assert await get_node(server, files.authority, engine) == "OK"


async def test_every_address_of_a_name_shows_the_new_certificate(
    serve: Serve, files: Files
) -> None:
    """A name such as localhost stands for two."""
    node = await serve(register=False, listen="localhost:0", tls=files.settings(callers=False))
    port = node.endpoint.rpartition(":")[2]
    addresses = {
        host
        for host in ("127.0.0.1", "::1")
        if await is_served(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", files)
    }
    new = files.authority.server()
    files.show(new)
    async with asyncio.timeout(SOON):
        for host in addresses:
            while await shown_by(f"{host}:{port}") != new.certificate:  # noqa: ASYNC110 - polled
                await asyncio.sleep(0.05)

    assert "127.0.0.1" in addresses


async def is_served(endpoint: str, files: Files) -> bool:
    async with secure_wire(endpoint, files.authority) as wire:
        return await outcome(wire, "TierService.GetNode", b"") == "OK"


BROKEN: dict[str, Callable[[Files], Any]] = {
    "garbage": lambda f: replace(f.cert, b"garbage"),
    "a missing file": lambda f: f.key.unlink(),
    "another key": lambda f: replace(f.key, f.authority.server().key),
    "one that has expired": lambda f: f.show(
        f.authority.issue(["localhost"], lasts=timedelta(minutes=-1))
    ),
    "no authority": lambda f: replace(f.ca, b""),
    "another's list": lambda f: replace(f.crl, Authority("stranger").revoke([])),
}


@pytest.mark.parametrize("kind", BROKEN)
async def test_what_cannot_be_used_changes_nothing(
    serve: Serve, files: Files, engine: Issued, kind: str
) -> None:
    """The last good files stay in use, and the log says so once, naming file and reason."""
    node = await serve(register=False, tls=files.settings())
    before = await shown_by(node.endpoint)
    async with (
        secure_wire(node.endpoint, files.authority, engine) as wire,
        watching(wire) as follower,
    ):
        with capture_logs() as logs:
            BROKEN[kind](files)
            await until(lambda: warnings(logs), SOON)
            for _ in range(10):
                await follower.goes_on()

        assert await shown_by(node.endpoint) == before
        assert await get_node(node.server, files.authority, engine) == "OK"
    assert len(warnings(logs)) == 1
    assert str(files.ca.parent) in warnings(logs)[0]["problem"]


def warnings(logs: Any) -> list[Any]:
    return [line for line in logs if line["log_level"] == "warning"]


async def test_a_revoked_certificate_ends_its_streams(
    start: Start, files: Files, engine: Issued
) -> None:
    """And its old connection is of no more use; nobody else notices."""
    server = await start(tls=files.settings())
    other = files.authority.issue(uris=[ENGINE])
    async with (
        secure_wire(server.address, files.authority, engine) as revoked,
        secure_wire(server.address, files.authority, other) as kept,
        watching(revoked) as dropped,
        watching(kept) as staying,
    ):
        replace(files.crl, files.authority.revoke([engine.certificate]))
        ended = await dropped.ended()

        assert (ended.code.name, ended.reason) == ("UNAUTHENTICATED", Reason.REVOKED)
        assert "was revoked" in ended.message
        assert await outcome(revoked, "TierService.GetNode", b"") == "UNAUTHENTICATED"
        assert await get_node(server, files.authority, engine) == "UNAUTHENTICATED"
        await staying.goes_on()
        assert await outcome(kept, "TierService.GetNode", b"") == "OK"


async def test_a_certificate_that_expires_ends_its_streams(start: Start, files: Files) -> None:
    """At its time, though its connection was made before."""
    server = await start(tls=files.settings())
    short = files.authority.issue(uris=[ENGINE], lasts=timedelta(seconds=4))
    long = files.authority.issue(uris=[ENGINE])
    async with (
        secure_wire(server.address, files.authority, short) as expiring,
        secure_wire(server.address, files.authority, long) as kept,
        watching(expiring) as dropped,
        watching(kept) as staying,
    ):
        ended = await dropped.ended()

        assert (ended.code.name, ended.reason) == ("UNAUTHENTICATED", Reason.REVOKED)
        assert "has expired" in ended.message
        assert await outcome(expiring, "TierService.GetNode", b"") == "UNAUTHENTICATED"
        await staying.goes_on()


async def test_an_authority_that_goes_takes_its_callers_along(
    start: Start, files: Files, engine: Issued
) -> None:
    """One that comes lets its own in; callers of one that stays are never dropped."""
    server = await start(tls={**files.settings(), "crl": None})
    successor = Authority("successor")
    new = successor.issue(uris=[OPS])
    async with (
        secure_wire(server.address, files.authority, engine) as old,
        watching(old) as dropped,
    ):
        assert await get_node(server, files.authority, new) == "UNAVAILABLE"
        replace(files.ca, files.authority.cert + successor.cert)
        async with asyncio.timeout(SOON):
            while await get_node(server, files.authority, new) != "OK":
                await dropped.goes_on()
        async with (
            secure_wire(server.address, files.authority, new) as wire,
            watching(wire) as staying,
        ):
            await dropped.goes_on()
            replace(files.ca, successor.cert)
            ended = await dropped.ended()

            assert (ended.code.name, ended.reason) == ("UNAUTHENTICATED", Reason.REVOKED)
            assert "no authority" in ended.message
            assert await outcome(old, "TierService.GetNode", b"") == "UNAUTHENTICATED"
            assert await get_node(server, files.authority, engine) == "UNAVAILABLE"
            await staying.goes_on()


async def test_certificates_say_when_they_end(serve: Serve, files: Files) -> None:
    """By file, those of the settings."""
    node = await serve(register=False, tls=files.settings())
    expiries = node.server.serving.security.expiries()
    shown = await shown_by(node.endpoint)

    assert expiries == {
        "cert": shown.not_valid_after_utc.timestamp(),
        "client_ca": files.authority.certificate.not_valid_after_utc.timestamp(),
    }


async def test_a_plain_address_is_bound_once(serve: Serve, files: Files) -> None:
    """Two servers do not share one by TLS either."""
    node = await serve(register=False, tls=files.settings())

    with pytest.raises(Exception, match="in use"):
        await serve(register=False, listen=node.endpoint, tls=files.settings())
    async with grpc.aio.insecure_channel(node.endpoint):
        assert await get_node(node.server, files.authority) == "UNAVAILABLE"
