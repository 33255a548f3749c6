"""A node that sends nonsense is not believed, is asked again, and stops nobody."""

from typing import Any

import pytest

from kvtier.client import NodeClient, Quality
from kvtier.v1.event_service_pb2 import BlockRemoved, BlockStored
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.namespaces import fingerprint
from tests.unit.client.fakes import FakeNode
from tests.unit.client.messages import FINGERPRINT, NAMESPACE, Script, hash_of, removed, stored
from tests.unit.client.watching import hold

from .conftest import Serve
from .support import cpu_tier
from .viewing import proxying, watching


def described(**fields: Any) -> Namespace:
    """A description with some fields changed to nonsense."""
    namespace = Namespace()
    namespace.CopyFrom(NAMESPACE)
    for name, value in fields.items():
        setattr(namespace, name, value)
    return namespace


def block(**fields: Any) -> BlockStored:
    """A stored block with some fields changed to nonsense."""
    event = stored(2)
    for name, value in fields.items():
        setattr(event, name, value)
    return event


def of(namespace: Namespace) -> BlockStored:
    return stored(2, namespace=fingerprint(namespace))


NO_TOKENS = described(tokens_per_block=0)
HUGE_BLOCKS = described(tokens_per_block=2**32 - 1)
NO_WIDTH = described(hash_width=0)
WIDE = described(hash_width=65)

# For each kind of nonsense the description that goes before it, and the event.
BAD: dict[str, tuple[Namespace, BlockStored | BlockRemoved]] = {
    "no tokens in a block": (NO_TOKENS, of(NO_TOKENS)),
    "too many tokens in a block": (HUGE_BLOCKS, of(HUGE_BLOCKS)),
    "hashes without width": (NO_WIDTH, of(NO_WIDTH)),
    "hashes too wide": (WIDE, of(WIDE)),
    "half a hash": (NAMESPACE, block(block_hashes=b"1234567")),
    "no hash": (NAMESPACE, block(block_hashes=b"")),
    "another width": (NAMESPACE, block(block_hashes=b"x" * 9)),
    "an unknown tier": (NAMESPACE, block(tier="cpu9")),
    "no tier": (NAMESPACE, block(tier="")),
    "a removal from an unknown tier": (NAMESPACE, removed(1, tier="cpu9")),
    "an unknown namespace": (NAMESPACE, block(namespace=b"?" * 32)),
    "a group out of range": (NAMESPACE, block(group=len(NAMESPACE.block_bytes))),
    "a huge group": (NAMESPACE, block(group=2**32 - 1)),
    "a removal from a group out of range": (NAMESPACE, removed(1, group=2)),
    "a scope too long": (NAMESPACE, block(scope=b"x" * 33)),
    "no namespace": (NAMESPACE, block(namespace=b"")),
}


def script_of(kind: str) -> tuple[list[Any], Script]:
    """What a node sends that has one block, then sends nonsense, then good events."""
    description, bad = BAD[kind]
    script = Script("bad")
    begin = [script.reset(), script.namespace(), script.tier("cpu0"), script.page(stored(1))]
    sent = [*begin, script.synced(1), script.namespace(description), script.batch(bad)]
    return [*sent, script.batch(stored(3)), script.batch(removed(1))], script


@pytest.mark.parametrize("kind", BAD)
async def test_good_events_behind_a_bad_one_are_applied(kind: str) -> None:
    """It is counted, the view owns up to it, and the stream goes on."""
    sent, script = script_of(kind)
    async with FakeNode() as node, NodeClient(node.endpoint) as client:
        node.on("WatchEvents", hold(*sent))
        async with watching(client) as view:
            await view.until(lambda: [m for m in view.messages if m.through == script.through])

            assert view.index.bad_events > 0
            assert {key.block_hash for key in view.held("bad")} == {hash_of(3)}
            assert view.index.quality("bad") is Quality.STALE
            assert len(node.requests("WatchEvents")) == 1


@pytest.mark.parametrize("kind", BAD)
async def test_a_proxy_asks_such_a_node_again(serve: Serve, kind: str) -> None:
    """It takes a new snapshot, and meanwhile the primary's events go on."""
    primary = await serve(cpu_tier(8))
    sent, script = script_of(kind)
    again = Script("bad", through=script.through)
    async with FakeNode() as node, NodeClient(node.endpoint) as client:
        node.on("WatchEvents", hold(*sent), hold(*again.start(stored(3)), again.batch(stored(4))))
        async with proxying(primary.client, [client]) as (proxy, view):
            await primary.store("good")
            await view.settle(primary.client)
            await view.until(lambda: proxy.index.count("bad", "cpu0") == 2)

            held = {key.block_hash for key in proxy.index.blocks("bad", "cpu0")}
            assert held == {hash_of(3), hash_of(4)}
            assert proxy.index.bad_events > 0
            assert proxy.index.quality("bad") is Quality.EXACT
            assert FINGERPRINT in proxy.index.namespaces()
