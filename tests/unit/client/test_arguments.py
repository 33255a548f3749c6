"""Arguments that cannot be sent are refused by name, before any call."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from kvtier.client import InvalidArgumentError, NodeClient
from kvtier.v1.block_pb2 import Lease

from .fakes import FakeNode
from .messages import FINGERPRINT, block_run, block_set

_LEASE = Lease(id=b"i" * 16)
_SETS, _RUNS = [block_set(1)], [block_run(1)]


async def _list(client: NodeClient, **filters: Any) -> None:
    async for _ in client.list_blocks(**filters):
        pass


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda c: c.lookup("text", _SETS), "namespace must be bytes; got 'text'"),
        (
            lambda c: c.lookup(FINGERPRINT, block_set(1)),
            "chains must be a sequence, each a BlockSet",
        ),
        (lambda c: c.lookup(FINGERPRINT, _RUNS), "chains must be a sequence, each a BlockSet"),
        (lambda c: c.lookup(FINGERPRINT, 7), "chains must be a sequence"),
        (lambda c: c.touch(FINGERPRINT, _SETS, tiers="cpu0"), "tiers must be a sequence"),
        (lambda c: c.touch(FINGERPRINT, _SETS, request_id=b"\xff"), "request_id must be text"),
        (lambda c: c.touch(FINGERPRINT, _SETS, request_id="\ud800"), "request_id must be text"),
        (lambda c: c.delete(FINGERPRINT, _SETS, tiers=[1]), "tiers must be a sequence, each text"),
        (lambda c: c.clear(3), "tier must be text that UTF-8 can hold; got 3"),
        (
            lambda c: c.describe_block(FINGERPRINT, -1, b"", b""),
            "group must be a whole number from 0",
        ),
        (lambda c: c.describe_block(FINGERPRINT, 2**32, b"", b""), "group must be a whole number"),
        (lambda c: c.describe_block(FINGERPRINT, 0.5, b"", b""), "group must be .*; got 0.5"),
        (lambda c: _list(c, page_size=2**31), "page_size must be a whole number from -2147483648"),
        (lambda c: _list(c, group=-1), "group must be a whole number from 0 to 4294967295; got -1"),
        (
            lambda c: c.complete_store(_LEASE, failed_blocks=[-1]),
            "failed_blocks must be a sequence",
        ),
        (lambda c: c.complete_store(b"lease"), "lease must be a Lease message"),
        (lambda c: c.renew_leases([_LEASE], ttl=0), "ttl must be more than 0 seconds"),
        (lambda c: c.renew_leases([_LEASE], ttl=-1.0), "ttl must be more than 0 seconds.*-1.0"),
        (
            lambda c: c.renew_leases([_LEASE], ttl=float("nan")),
            "ttl must be more than 0 .*; got nan",
        ),
        (
            lambda c: c.renew_leases([_LEASE], ttl=float("inf")),
            "ttl must be more than 0 .*; got inf",
        ),
        (
            lambda c: c.renew_leases([_LEASE], ttl=10**15),
            "ttl must be more than 0 seconds and finite",
        ),
        (
            lambda c: c.renew_leases([_LEASE], ttl="30s"),
            "ttl must be a number of seconds; got '30s'",
        ),
        (lambda c: c.renew_leases([_LEASE], ttl=True), "ttl must be a number of seconds; got True"),
        (
            lambda c: c.prepare_load("cpu0", FINGERPRINT, _SETS, lease_id="x"),
            "lease_id must be bytes",
        ),
        (lambda c: c.register_namespace("name"), "namespace must be a Namespace message"),
        (lambda c: c.write_blocks(3, {}, []), "lease must be a Lease message"),
        (
            lambda c: c.write_blocks(_LEASE, {5: b"x"}, [1]),
            "payloads has place 5; there are 1 blocks",
        ),
        (lambda c: c.write_blocks(_LEASE, {-1: b"x"}, [1]), "payloads has place -1"),
        (lambda c: c.write_blocks(_LEASE, {0: "text"}, [4]), r"payloads\[0\] must be a contiguous"),
        (lambda c: c.write_blocks(_LEASE, {0: b"abc"}, [4]), r"payloads\[0\] has 3 bytes.* has 4"),
        (lambda c: c.read_blocks("x", []), "lease must be a Lease message"),
    ],
)
async def test_a_bad_argument_is_named(
    node: FakeNode, client: NodeClient, call: Callable[[Any], Awaitable[Any]], words: str
) -> None:
    """The error says which argument, what it may be and what it was; no call is made."""
    with pytest.raises(InvalidArgumentError, match=f"^{words}") as caught:
        await call(client)

    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.reason == "BAD_REQUEST"
    assert node.calls == []


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5", None, True])
def test_a_timeout_is_a_positive_number(timeout: Any) -> None:
    """A client without a usable deadline is not made."""
    with pytest.raises(InvalidArgumentError, match="timeout must be more than 0 seconds"):
        NodeClient("127.0.0.1:1", timeout=timeout)


async def test_fractions_of_seconds_are_kept(node: FakeNode, client: NodeClient) -> None:
    """A time to live of half a second is sent as such."""
    await client.renew_leases([_LEASE], ttl=1.5)

    (request,) = node.requests("RenewLeases")
    assert (request.ttl.seconds, request.ttl.nanos) == (1, 500_000_000)
