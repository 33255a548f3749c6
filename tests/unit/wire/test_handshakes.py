"""What gRPC says of a handshake that failed is told in words, by real handshakes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import grpc
import grpc.aio
import pytest

from kvtier.wire.handshakes import why_no_plaintext, why_no_tls
from tests.certificates import LOOPBACK, Authority, Issued

OURS, OTHERS = Authority("ours"), Authority("others")
PAST = timedelta(minutes=-1)

Channel = Callable[[str], grpc.aio.Channel]


@asynccontextmanager
async def serving(issued: Issued | None, client_ca: bytes | None = None) -> AsyncIterator[str]:
    """A server of no calls, with this certificate, or in plaintext."""
    server = grpc.aio.server()
    if issued is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        pair = [(issued.key, issued.cert)]
        wanted = client_ca is not None
        credentials = grpc.ssl_server_credentials(pair, client_ca, wanted)
        port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


def tls(roots: Authority = OURS, shown: Issued | None = None) -> Channel:
    pair = (shown.key, shown.cert) if shown else ()
    return partial(
        grpc.aio.secure_channel, credentials=grpc.ssl_channel_credentials(roots.cert, *pair)
    )


async def details_of(target: str, channel: Channel) -> str:
    """Return what gRPC says of a call that cannot be made."""
    async with channel(target) as opened:
        method: Any = opened.unary_unary("/a/b")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await method(b"", timeout=20)
    return str(caught.value.details())


SERVER = OURS.server()
MUTUAL = OURS.cert


@pytest.mark.parametrize(
    ("issued", "client_ca", "channel", "words"),
    [
        (SERVER, None, tls(OTHERS), "an authority that is not trusted here"),
        (SERVER, None, tls(Authority("ours")), "an authority that is not trusted here"),
        (OURS.issue(LOOPBACK, lasts=PAST), None, tls(), "a certificate that has expired"),
        (OURS.issue(["elsewhere.example"]), None, tls(), "a certificate for another name"),
        (None, None, tls(), "does not speak TLS"),
        (SERVER, MUTUAL, tls(), "it may want a client certificate"),
        (SERVER, MUTUAL, tls(shown=OTHERS.issue(["x"])), "or another one than it was shown"),
        (SERVER, MUTUAL, tls(shown=OURS.issue(["x"], lasts=PAST)), "or another one than it was"),
    ],
)
async def test_a_handshake_that_failed_is_told(
    issued: Issued | None, client_ca: bytes | None, channel: Channel, words: str
) -> None:
    """Each way to fail has words of its own, that say what to look at."""
    async with serving(issued, client_ca) as target:
        details = await details_of(target, channel)

    assert words in why_no_tls(details), details


async def test_plaintext_to_a_server_with_tls_is_told() -> None:
    """Who forgot to ask for TLS hears of it."""
    async with serving(SERVER) as target:
        details = await details_of(target, grpc.aio.insecure_channel)

    assert "may serve TLS" in why_no_plaintext(details), details


@pytest.mark.parametrize("channel", [tls(), grpc.aio.insecure_channel])
async def test_a_server_that_is_not_there_is_none_of_that(channel: Channel) -> None:
    """A refused connection says nothing of TLS."""
    async with serving(None) as target:
        pass
    details = await details_of(target, channel)

    assert why_no_tls(details) == ""
    assert why_no_plaintext(details) == ""


async def test_a_server_that_hangs_up_at_once_is_none_of_that() -> None:
    """A load balancer with nobody behind it says nothing of certificates."""

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        details = await details_of(f"127.0.0.1:{port}", tls())

    assert "Handshake read failed" in details
    assert why_no_tls(details) == ""


def test_a_call_that_was_cut_is_none_of_that() -> None:
    """A connection that stood says nothing of TLS when it ends."""
    assert why_no_tls("Socket closed") == ""
    assert why_no_plaintext("Socket closed") == ""
