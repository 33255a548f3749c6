"""The address of the metrics answers GET /metrics, and costs nothing when it is misused."""

import asyncio
import re
import socket
from pathlib import Path

import pytest

from kvtier.server.metrics import endpoint as endpoint_module
from kvtier.server.serving.starting import StartError
from tests.waiting import until

from .conftest import Serve
from .proxies import ServeProxy, serve_proxy
from .scraping import fetch, scrape
from .support import cpu_tier

__all__ = ["serve_proxy"]

METRICS = "127.0.0.1:0"
ROOT = Path(__file__).resolve().parents[2]


async def answer(address: str | None, request: bytes) -> bytes:
    """Send bytes, and return all that comes back."""
    assert address is not None
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(request)
        await writer.drain()
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /metrics HTTP/1.1", b"200 OK"),
        (b"GET /metrics?name[]=x HTTP/1.0", b"200 OK"),
        (b"GET / HTTP/1.1", b"404 Not Found"),
        (b"GET /metrics/../etc/passwd HTTP/1.1", b"404 Not Found"),
        (b"POST /metrics HTTP/1.1", b"405 Method Not Allowed"),
        (b"DELETE /metrics HTTP/1.1", b"405 Method Not Allowed"),
        (b"PRI * HTTP/2.0", b"400 Bad Request"),
        (b"nonsense", b"400 Bad Request"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 100_000, b"431 Request Header"),
    ],
)
async def test_only_get_metrics_is_answered(
    serve: Serve, request_line: bytes, status: bytes
) -> None:
    """Everything else gets the status that says what was wrong."""
    node = await serve(cpu_tier(4), metrics_listen=METRICS)

    told = await answer(node.server.serving.observing.metrics_address, request_line + b"\r\n\r\n")

    assert told.startswith(b"HTTP/1.1 " + status)


async def test_both_formats_are_spoken(serve: Serve) -> None:
    """Who accepts OpenMetrics gets it, and who says nothing the text of old."""
    node = await serve(cpu_tier(4), metrics_listen=METRICS)
    address = node.server.serving.observing.metrics_address

    plain, modern = await fetch(address), await fetch(address, "application/openmetrics-text")

    assert b"# TYPE kvtier_tier_stores_total counter" in plain
    assert b"# TYPE kvtier_tier_stores counter" in modern
    assert modern.endswith(b"# EOF\n")


async def test_every_metric_is_on_the_page_of_metrics_and_served(
    serve: Serve, serve_proxy: ServeProxy
) -> None:
    """By its name and type, and with the labels that the page says."""
    node = await serve(cpu_tier(4), metrics_listen=METRICS)
    proxy = await serve_proxy(node.endpoint, metrics_listen=METRICS)
    told = [await scrape(each.serving.observing.metrics_address) for each in (node.server, proxy)]
    page = (ROOT / "docs" / "metrics.md").read_text()
    rows = re.findall(r"^\| `([a-z_]+)` \| ([a-z]+) \| ([`a-z_, ]*) \|", page, re.MULTILINE)

    served = {name: family for each in told for name, family in each.families.items()}
    ours = {name for name in served if name.startswith(("kvtier_", "grpc_"))}
    assert {name.removesuffix("_total") for name, _, _ in rows} == ours
    for name, kind, labels in rows:
        family = served[name.removesuffix("_total")]
        assert family.type == kind
        for sample in family.samples:
            assert sample.labels.keys() - {"le"} == set(re.findall("[a-z_]+", labels)), name


async def test_who_stands_still_holds_nobody_up(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections that say nothing are left, past a few at once; scrapes and calls go on."""
    monkeypatch.setattr(endpoint_module, "_SECONDS", 0.3)
    node = await serve(cpu_tier(4), metrics_listen=METRICS)
    address = node.server.serving.observing.metrics_address
    assert address is not None
    host, port = address.rsplit(":", 1)
    idle = [await asyncio.open_connection(host, int(port)) for _ in range(40)]
    try:
        await node.store("A")
        ends: list[object] = await asyncio.wait_for(
            asyncio.gather(*(reader.read() for reader, _ in idle), return_exceptions=True), 10
        )
        metrics = await scrape(address)
    finally:
        for _, writer in idle:
            writer.close()

    assert all(end == b"" or isinstance(end, ConnectionError) for end in ends)
    assert metrics.total("kvtier_tier_stores_total") == 1


async def test_who_reads_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when what is left to send is little: the connection is closed without it."""
    monkeypatch.setattr(endpoint_module, "_SECONDS", 0.3)
    body = b"x" * 48_000

    async def render(_accept: str) -> tuple[bytes, str]:
        return body, "text/plain"

    endpoint = endpoint_module.MetricsEndpoint(render)
    host, port = (await endpoint.start(METRICS)).rsplit(":", 1)
    assert endpoint._server is not None
    (listening,) = endpoint._server.sockets
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    try:
        with socket.socket() as narrow:
            narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            narrow.connect((host, int(port)))
            narrow.send(b"GET /metrics HTTP/1.1\r\n\r\n")
            await until(lambda: endpoint._connections)
            await until(lambda: not endpoint._connections)
            narrow.settimeout(10)
            # The end of the connection takes one more turn of the loop.
            chunks = await asyncio.to_thread(lambda: [*iter(lambda: narrow.recv(1 << 16), b"")])
    finally:
        await endpoint.close()

    assert sum(map(len, chunks)) < len(body)


@pytest.mark.parametrize("version", ["abc", "1.x", "", "1" * 400])
async def test_a_strange_version_of_a_format_gets_an_answer(serve: Serve, version: str) -> None:
    """In one of the formats that there are."""
    node = await serve(cpu_tier(4), metrics_listen=METRICS)
    address = node.server.serving.observing.metrics_address

    told = await fetch(address, f"application/openmetrics-text; version={version}")

    assert b"kvtier_tier_stores" in told


async def test_scrapes_at_one_time_all_get_an_answer(serve: Serve) -> None:
    """Each is whole, and each of its own."""
    node = await serve(cpu_tier(4), metrics_listen=METRICS)
    address = node.server.serving.observing.metrics_address

    told = await asyncio.gather(*(scrape(address) for _ in range(8)))

    assert len({frozenset(each.series) for each in told}) == 1


async def test_an_address_in_use_stops_the_start_with_one_line(serve: Serve) -> None:
    """The message names the address, and the setting to change."""
    node = await serve(cpu_tier(4), metrics_listen=METRICS)
    taken = node.server.serving.observing.metrics_address

    with pytest.raises(StartError, match=rf"{taken}.*in use.*metrics_listen"):
        await serve(cpu_tier(4), metrics_listen=taken)
