"""The client for callers that block."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kvtier.client import (
    BlockingNodeClient,
    FailedPreconditionError,
    InvalidArgumentError,
    KvtierError,
    NodeClient,
)
from kvtier.client.loop_thread import LoopThread
from kvtier.v1.event_service_pb2 import WatchEventsResponse
from kvtier.v1.listing_pb2 import (
    ListBlocksResponse,
)
from kvtier.v1.tier_pb2 import Block
from kvtier.v1.tier_service_pb2 import (
    GetNodeResponse,
)
from kvtier.wire.errors import Reason, not_found

from .fakes import FakeNode, fail, play
from .messages import Script, stored


@pytest.fixture
def served() -> Iterator[FakeNode]:
    """Serve a node from a loop in the background, as another process would."""
    loop = LoopThread.hold()
    node = FakeNode()
    loop.run(node.__aenter__())
    yield node
    loop.run(node.stop())
    loop.release()


def _threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "kvtier-client"]


def test_a_call_returns_its_answer(served: FakeNode) -> None:
    """No event loop is in sight of the caller."""
    answer = GetNodeResponse()
    answer.node.node_id = "n"
    served.on("GetNode", lambda _: answer)

    with BlockingNodeClient(served.endpoint, owner="me") as client:
        assert client.get_node().node_id == "n"
        assert client.endpoint == served.endpoint
        assert client.owner == "me"


def test_a_call_raises_its_error(served: FakeNode) -> None:
    """Errors are those of the asynchronous client, with a bad argument as with a refusal."""
    served.on("ClearTier", fail(not_found("no tier gpu7", Reason.TIER_UNKNOWN)))

    with BlockingNodeClient(served.endpoint) as client:
        with pytest.raises(KvtierError, match="no tier gpu7"):
            client.clear("gpu7")
        with pytest.raises(InvalidArgumentError, match="tier must be text"):
            client.clear(7)  # type: ignore[arg-type]


def test_a_listing_is_an_iterator(served: FakeNode) -> None:
    """Pages are fetched as they are read, and leaving early is fine."""
    more = ListBlocksResponse(blocks=[Block(block_hash=b"a")], next_page_token=b"1")
    served.on("ListBlocks", lambda _: more, lambda _: ListBlocksResponse(blocks=[Block()]))

    with BlockingNodeClient(served.endpoint) as client:
        assert next(client.list_blocks()).block_hash == b"a"
        assert served.names() == ["ListBlocks"]
        served.on("ListBlocks", lambda _: more, lambda _: ListBlocksResponse(blocks=[Block()]))
        assert len(list(client.list_blocks())) == 2


def test_a_stream_ends_with_its_error(served: FakeNode) -> None:
    """Messages come first, then the reason why the stream broke."""
    sent = Script().start(stored(1))
    served.on("WatchEvents", play(*sent, then=not_found("no tier", Reason.TIER_UNKNOWN)))

    with BlockingNodeClient(served.endpoint) as client:
        stream = client.watch_events()
        found = [next(stream) for _ in sent]
        with pytest.raises(KvtierError, match="no tier"):
            next(stream)

    assert found == sent


def test_a_stream_that_is_left_is_cancelled(served: FakeNode) -> None:
    """Breaking out of the loop ends the call at the node."""
    left = threading.Event()

    async def follow(_: Any) -> AsyncIterator[WatchEventsResponse]:
        try:
            yield Script().reset()
            await asyncio.Event().wait()
        finally:
            left.set()

    served.on("WatchEvents", follow)
    with BlockingNodeClient(served.endpoint) as client:
        for _ in client.watch_events():
            break

        assert left.wait(10)


def test_clients_share_one_background_loop(served: FakeNode) -> None:
    """However many clients there are, one thread serves them; the last one ends it."""
    with BlockingNodeClient(served.endpoint) as one, BlockingNodeClient(served.endpoint) as two:
        one.get_node()
        two.get_node()

        assert len(_threads()) == 1


def test_the_background_loop_ends_with_its_last_client() -> None:
    """Nothing is left running, and a later client starts anew."""
    for _ in range(2):
        client = BlockingNodeClient("127.0.0.1:1")
        assert len(_threads()) == 1
        client.close()
        client.close()
        assert _threads() == []


def test_threads_may_share_a_client(served: FakeNode) -> None:
    """Calls from many threads at once all get their own answers."""
    with BlockingNodeClient(served.endpoint) as client, ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(client.list_tiers) for _ in range(100)]

        assert [future.result() for future in futures] == [[]] * 100


def test_a_closed_client_says_so() -> None:
    """A call after closing is told what to do."""
    client = BlockingNodeClient("127.0.0.1:1")
    client.close()

    with pytest.raises(KvtierError, match=r"the client of 127\.0\.0\.1:1 is closed; make a new"):
        client.get_node()


async def test_a_closed_client_says_the_same_to_every_caller() -> None:
    """Callers that block and callers that wait read one message."""
    client, blocking = NodeClient("127.0.0.1:1"), BlockingNodeClient("127.0.0.1:1")
    await client.close()
    blocking.close()

    with pytest.raises(FailedPreconditionError) as awaited:
        await client.get_node()
    with pytest.raises(FailedPreconditionError) as blocked:
        blocking.get_node()

    assert awaited.value.message == blocked.value.message


def test_a_client_that_cannot_be_made_starts_nothing() -> None:
    """A bad endpoint leaves no thread behind."""
    with pytest.raises(InvalidArgumentError):
        BlockingNodeClient("nowhere")

    assert _threads() == []
