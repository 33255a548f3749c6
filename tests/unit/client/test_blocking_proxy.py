"""The proxy for callers that block."""

import threading
import time
from collections.abc import Iterator

import pytest

from kvtier.client import (
    BlockingTieringProxy,
    Chain,
    InvalidArgumentError,
    KvtierError,
    Quality,
)
from kvtier.client.loop_thread import LoopThread
from kvtier.v1.block_pb2 import Medium

from .messages import FINGERPRINT, block_set, hash_of, stored
from .proxying import HIT, MISS, Source, answer


@pytest.fixture
def sources() -> Iterator[list[Source]]:
    """Two nodes on a loop in the background, as other processes would be."""
    loop = LoopThread.hold()
    served = [Source("p"), Source("s1")]
    for source in served:
        loop.run(source.node.__aenter__())
    yield served
    for source in served:
        loop.run(source.node.stop())
    loop.release()


def tell(sources: list[Source]) -> None:
    """Let the primary have one block, and the secondary two."""

    async def say() -> None:
        for source, numbers in zip(sources, ([1], [1, 2]), strict=True):
            source.say(*source.script.start(stored(*numbers)))

    loop = LoopThread.hold()
    loop.run(say())
    loop.release()


def in_sync(proxy: BlockingTieringProxy) -> bool:
    places = proxy.rank_nodes(FINGERPRINT, [Chain(0, b"", [hash_of(1)])], {Medium.MEDIUM_CPU: 1.0})
    return [place.quality for place in places] == [Quality.EXACT] * 2


def test_it_looks_up_and_ranks_as_the_other_does(sources: list[Source]) -> None:
    """No event loop is in sight of the caller."""
    sources[0].node.on("LookupBlocks", answer(HIT, MISS, MISS))
    addresses = [source.node.endpoint for source in sources]

    with BlockingTieringProxy(addresses[0], addresses[1:]) as proxy:
        tell(sources)
        end = time.monotonic() + 10
        while not in_sync(proxy):
            assert time.monotonic() < end
            time.sleep(0.005)
        (looked,) = proxy.lookup(FINGERPRINT, [block_set(1, 2, 3)])
        ranked = proxy.rank_nodes(
            FINGERPRINT, [Chain(0, b"", [hash_of(1), hash_of(2)])], {Medium.MEDIUM_CPU: 0.5}
        )
        told = proxy.take_events()
        named = [source.node_id for source in proxy.sources]

    assert looked.results == (HIT, HIT, MISS)
    assert looked.sources == (0, 1, None)
    assert [(place.node, place.score) for place in ranked] == [("s1", 1.0), ("p", 0.5)]
    assert {message.node_id for message in told} >= {"p", "s1"}
    assert named == ["p", "s1"]


def test_closing_ends_it_and_leaves_no_thread(sources: list[Source]) -> None:
    """Calls after that say so; closing twice does no harm."""
    proxy = BlockingTieringProxy(sources[0].node.endpoint)
    before = threading.active_count()
    proxy.close()
    proxy.close()

    with pytest.raises(KvtierError, match="closed"):
        proxy.take_events()
    assert threading.active_count() <= before


def test_settings_that_cannot_be_are_refused_and_leave_nothing() -> None:
    """As those of the other are."""
    with pytest.raises(InvalidArgumentError, match="quota"):
        BlockingTieringProxy("127.0.0.1:1", quota=0)

    assert "kvtier-client" not in [each.name for each in threading.enumerate()]
