"""Bringing blocks from secondaries: what is on its way, and who is left alone."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc

from kvtier.client import BlockIndex
from kvtier.client.answers import TierOf
from kvtier.client.errors import typed
from kvtier.client.proxy.promotions.planning import HIT, HIT_PENDING, RETRY
from kvtier.client.proxy.promotions.promoting import Promotions
from kvtier.client.proxy.promotions.promotion import Promotion
from kvtier.client.proxy.promotions.verdicts import Verdicts
from kvtier.client.proxy.settings import PromotionSettings
from kvtier.v1.copying_pb2 import CopyBlocksResponse, PeerTier
from kvtier.v1.result_pb2 import CopyResult
from kvtier.wire.errors import Reason
from tests.waiting import until

from .managing import Fleet, fleet, runs_of
from .messages import Script, stored

COPIED, FAILED = CopyResult.COPY_RESULT_COPIED, CopyResult.COPY_RESULT_FAILED


class Copies:
    """A primary whose copies go on as a test says.

    Attributes:
        begun: From where each was begun, and what it is still to answer.
    """

    def __init__(self) -> None:
        self.begun: list[tuple[str, asyncio.Queue[CopyBlocksResponse | Exception | None]]] = []

    async def copy(
        self, namespace: bytes, runs: Sequence[Any], *, to_tier: str, from_peer: PeerTier
    ) -> AsyncIterator[CopyBlocksResponse]:
        answers: asyncio.Queue[CopyBlocksResponse | Exception | None] = asyncio.Queue()
        self.begun.append((from_peer.endpoint, answers))
        while (answer := await answers.get()) is not None:
            if isinstance(answer, Exception):
                raise answer
            yield answer

    def end(self, number: int, result: CopyResult.ValueType) -> None:
        """Let a copy of one block end."""
        answers = self.begun[number][1]
        answers.put_nowait(CopyBlocksResponse(block_indexes=[0], results=[result]))
        answers.put_nowait(None)


def bringing(*secondaries: str, **settings: Any) -> tuple[Promotions, Copies, Fleet]:
    nodes, copies, index = fleet(*secondaries), Copies(), BlockIndex()
    nodes.primary.client = copies
    for name in secondaries:
        for message in Script(name).start(stored(1, 2, 3)):
            index.apply(message)
    verdicts = Verdicts(seconds=30.0, limit=100)
    return Promotions(nodes, index, verdicts, PromotionSettings(**settings)), copies, nodes


def load(promotions: Promotions, *numbers: int, held_by: Sequence[str]) -> Promotion:
    """Begin to bring blocks that some secondaries have."""
    holders = tuple(TierOf(node, "cpu0") for node in held_by)
    places = range(len(numbers))
    return Promotion(promotions, "cpu0", runs_of(numbers), places, [holders for _ in places])


def soon() -> float:
    return asyncio.get_running_loop().time() + 10


async def test_a_block_on_its_way_from_two_secondaries_is_counted_out_twice() -> None:
    """One load goes on to the next secondary while another asks the one that failed again."""
    promotions, copies, _ = bringing("a", "b", blocks=2)
    first = load(promotions, 1, held_by="ab")
    await until(lambda: len(copies.begun) == 1)
    copies.end(0, FAILED)
    await until(lambda: not promotions.under_way)
    second = load(promotions, 1, held_by="ab")
    going_on = asyncio.create_task(first.finish(soon()))
    await until(lambda: len(copies.begun) == 3)
    asked = [endpoint for endpoint, _ in copies.begun]

    copies.end(1, COPIED)
    copies.end(2, COPIED)
    await second.finish(soon())
    await going_on
    two_more = load(promotions, 2, 3, held_by="a")

    assert asked == ["a:1", "a:1", "b:1"]
    assert (first.results, second.results) == ({0: HIT}, {0: HIT})
    assert two_more.results == {0: HIT_PENDING, 1: HIT_PENDING}
    assert {each.error for each in promotions.counts.values()} == {""}
    two_more.leave()
    await promotions.close()


async def test_nothing_is_known_any_more_of_a_secondary_that_left() -> None:
    """Who comes to its address later is asked at once, whatever the one before it did."""
    promotions, copies, nodes = bringing("a")
    (member,) = nodes.secondaries
    failing = load(promotions, 1, held_by="a")
    await until(lambda: len(copies.begun) == 1)
    gone = typed(grpc.StatusCode.UNAVAILABLE, Reason.PEER_UNREACHABLE, "gone")
    copies.begun[0][1].put_nowait(gone)
    await failing.finish(soon())
    paused = promotions.pausing(member)

    await promotions.leave(member)

    assert paused
    assert failing.results == {0: RETRY}
    assert not promotions.pausing(member)
    assert promotions.counts == {}


async def test_what_is_on_its_way_from_a_secondary_that_leaves_is_ended() -> None:
    """Whoever waits for it looks elsewhere at once."""
    promotions, copies, nodes = bringing("a", "b")
    leaving, _ = nodes.secondaries
    waiting = load(promotions, 1, held_by="ab")
    finishing = asyncio.create_task(waiting.finish(soon()))
    await until(lambda: len(copies.begun) == 1)
    nodes.secondaries = nodes.secondaries[1:]

    await promotions.leave(leaving)
    await until(lambda: len(copies.begun) == 2)
    copies.end(1, COPIED)
    await finishing

    assert [endpoint for endpoint, _ in copies.begun] == ["a:1", "b:1"]
    assert waiting.results == {0: HIT}
    assert promotions.under_way == 0
