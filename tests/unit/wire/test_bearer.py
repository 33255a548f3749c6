"""Every call over a channel with a token carries it."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest

from kvtier.wire.bearer import BearerChannel, is_token

SEEN = ("authorization", "Bearer secret")


def _seen(context: Any) -> bytes:
    return repr([tuple(each) for each in context.invocation_metadata() or ()]).encode()


async def _one(_: Any, context: Any) -> bytes:
    return _seen(context)


async def _many(_: Any, context: Any) -> AsyncIterator[bytes]:
    yield _seen(context)


@pytest.fixture
async def target() -> AsyncIterator[str]:
    """A server that answers with the metadata of the call."""
    server = grpc.aio.server()
    handlers: dict[str, Any] = {
        "unary_unary": grpc.unary_unary_rpc_method_handler(_one),
        "unary_stream": grpc.unary_stream_rpc_method_handler(_many),
        "stream_unary": grpc.stream_unary_rpc_method_handler(_one),
        "stream_stream": grpc.stream_stream_rpc_method_handler(_many),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("s", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


@pytest.mark.parametrize("kind", ["unary_unary", "unary_stream", "stream_unary", "stream_stream"])
async def test_a_call_of_every_kind_carries_the_token(target: str, kind: str) -> None:
    """So it does beside metadata of the caller's own."""
    async with BearerChannel(grpc.aio.insecure_channel(target), "secret") as channel:
        method = getattr(channel, kind)(f"/s/{kind}")
        request = b"" if kind.startswith("unary") else iter([b""])
        call = method(request, metadata=(("other", "1"),))
        answer = await call if kind.endswith("unary") else await call.read()

    assert repr(SEEN).encode() in answer
    assert b"('other', '1')" in answer


@pytest.mark.parametrize("text", ["a", "abc.DEF-_~+/12==", "x" * 4096])
def test_a_token_is_what_a_header_may_hold(text: str) -> None:
    """The characters of RFC 6750, up to a length."""
    assert is_token(text)


@pytest.mark.parametrize("text", ["", "a b", "a\nb", "ä", "x" * 4097, "a=b"])
def test_what_a_header_may_not_hold_is_no_token(text: str) -> None:
    """Spaces, line ends and other letters are refused."""
    assert not is_token(text)
