"""What a proxy tells its callers of nodes that do not answer it."""

import grpc
import pytest

from kvtier.client import NodeClient
from kvtier.proxy.asking import Asking
from kvtier.wire.errors import KvtierError, Reason, denied, not_found, unauthenticated

from .behind import FakeMember


async def answer_to(error: KvtierError) -> KvtierError:
    """Ask a node that refuses so; return what the proxy's caller is told."""
    member = FakeMember("host:7600", ["node-1"], NodeClient("127.0.0.1:1"))

    async def refuse(_: NodeClient) -> None:
        raise error

    with pytest.raises(KvtierError) as told:
        await Asking(10).ask(member, refuse)
    return told.value


async def test_a_refusal_of_the_request_is_passed_on() -> None:
    """The caller can mend it."""
    refused = not_found("there is no such tier", Reason.TIER_UNKNOWN)

    assert await answer_to(refused) is refused


@pytest.mark.parametrize(
    "refused",
    [
        unauthenticated("the certificate was revoked", Reason.REVOKED),
        denied("dns:proxy needs the role reader", Reason.NOT_ALLOWED),
    ],
)
async def test_a_proxy_that_a_node_does_not_let_in_blames_nobody_else(refused: KvtierError) -> None:
    """Its caller has the right identity; the way to the node is closed, and it is told why."""
    told = await answer_to(refused)

    assert told.code is grpc.StatusCode.UNAVAILABLE
    assert told.reason == Reason.PEER_UNREACHABLE
    assert told.message == f"node-1 is out of reach: {refused.message}"
