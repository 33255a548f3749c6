"""A call has an id, which the caller gets back and every line that it causes has."""

import re
from collections.abc import AsyncIterator, Iterator, MutableMapping
from typing import Any

import grpc
import grpc.aio
import pytest
import structlog
from structlog.testing import LogCapture

from kvtier.v1.tier_service_pb2 import GetNodeRequest

from .conftest import Serve
from .raw_calls import raw
from .support import Serving, cpu_tier

RANDOM = re.compile(r"[0-9a-f]{16}")

Line = MutableMapping[str, Any]


@pytest.fixture
def lines() -> Iterator[list[Line]]:
    """What is logged, with what is bound to the call."""
    capture = LogCapture()
    before = structlog.get_config()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, capture])
    yield capture.entries
    structlog.configure(**before)


@pytest.fixture
async def node(serve: Serve) -> Serving:
    return await serve(cpu_tier(4))


@pytest.fixture
async def channel(node: Serving) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        yield channel


async def id_of(call: Any) -> str:
    """Return the id in the trailers of a call, however it ended."""
    await call.code()
    trailers = dict(await call.trailing_metadata())
    return str(trailers["x-request-id"])


@pytest.mark.parametrize("given", ["1", "b6c7-42/a:b", "x" * 64])
async def test_the_callers_id_is_kept(channel: grpc.aio.Channel, given: str) -> None:
    """One that is short and printable comes back as it was."""
    call = raw(channel, "GetNode")(b"", metadata=(("x-request-id", given),))

    assert await id_of(call) == given


@pytest.mark.parametrize("given", [None, "", "x" * 65, "two words"])
async def test_a_call_without_a_good_id_gets_a_random_one(
    channel: grpc.aio.Channel, given: str | None
) -> None:
    """Whatever cannot stand in a line of a log is not taken over."""
    metadata = (("x-request-id", given),) if given is not None else ()

    told = [await id_of(raw(channel, "GetNode")(b"", metadata=metadata)) for _ in range(2)]

    assert all(RANDOM.fullmatch(each) for each in told)
    assert told[0] != told[1]


async def test_a_refused_call_is_one_line_with_its_id(
    channel: grpc.aio.Channel, lines: list[Line]
) -> None:
    """The line says which call, of whom, and what was wrong; the trailers have its id, too."""
    call = raw(channel, "GetNode")(b"\xff\xff", metadata=(("x-request-id", "mine"),))

    assert await id_of(call) == "mine"
    assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
    (line,) = [each for each in lines if each["event"] == "refused"]
    assert (line["request_id"], line["log_level"]) == ("mine", "info")
    assert line["rpc"] == "kvtier.v1.TierService.GetNode"
    assert (line["code"], line["reason"]) == ("INVALID_ARGUMENT", "BAD_REQUEST")
    assert "2 bytes are no kvtier.v1.GetNodeRequest" in line["message"]
    assert line["caller"].startswith("ipv4:127.0.0.1:")
    assert line["peer"] == line["caller"]


async def test_lines_deep_inside_a_call_have_its_id(
    node: Serving, channel: grpc.aio.Channel, lines: list[Line], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that fails inside the server; the next call does not inherit the id."""
    monkeypatch.setattr(node.node, "version", 7)
    for given in ("first", "second"):
        request = GetNodeRequest().SerializeToString()
        call = raw(channel, "GetNode")(request, metadata=(("x-request-id", given),))
        assert await call.code() is grpc.StatusCode.INTERNAL

    failures = [each for each in lines if each["event"] == "a call failed inside the server"]
    assert [each["request_id"] for each in failures] == ["first", "second"]


async def test_many_refused_calls_are_few_lines_and_a_number(
    node: Serving, channel: grpc.aio.Channel, lines: list[Line]
) -> None:
    """Ten lines for each reason, and in the end how many were left out."""
    call = raw(channel, "GetNode")
    for _ in range(50):
        assert await call(b"\xff").code() is grpc.StatusCode.INVALID_ARGUMENT
    clear = raw(channel, "ClearTier")
    assert await clear(b"").code() is grpc.StatusCode.NOT_FOUND
    await node.server.drain_and_stop()

    refused = [each for each in lines if each["event"] == "refused"]
    left_out = [each for each in lines if each["event"] == "refused calls were not logged"]
    assert [each["reason"] for each in refused if each["log_level"] == "info"] == (
        ["BAD_REQUEST"] * 10
    )
    assert [(each["reason"], each["calls"]) for each in left_out] == [("BAD_REQUEST", 40)]
