"""Calls to every member at once."""

import asyncio
from typing import Any

from kvtier.client import KvtierError, UnavailableError
from kvtier.client.proxy.fan_out import FanningOut
from kvtier.wire.errors import Reason, unavailable

from .managing import Fleet, Member, member


class Draining:
    """A client whose drain answers, or fails, when all others were asked."""

    def __init__(self, together: asyncio.Barrier, answer: Any) -> None:
        self._together = together
        self._answer = answer

    async def drain(self) -> Any:
        await self._together.wait()
        if isinstance(self._answer, KvtierError):
            raise self._answer
        return self._answer


async def test_a_drain_is_asked_of_all_at_once() -> None:
    """None waits for another, and the answers are in order."""
    together = asyncio.Barrier(3)
    gone = unavailable("gone", Reason.INTERNAL)
    members = [
        member(name, client=Draining(together, answer))
        for name, answer in (("p", "drained p"), ("a", gone), ("b", "drained b"))
    ]

    async with asyncio.timeout(5):
        answers = await FanningOut(Fleet(members[0], members[1:])).drain()

    assert list(answers) == ["drained p", gone, "drained b"]
    assert answers[1:] == (gone, "drained b")
    assert answers.failed == {"a:1": gone}
    assert not answers.complete


async def test_one_that_was_never_heard_of_is_asked() -> None:
    """Only one that is known to be down is not."""
    alone = asyncio.Barrier(1)
    members = [
        Member("p:1", client=Draining(alone, "drained")),
        member("a", client=Draining(alone, "drained"), down=True),
    ]

    answers = await FanningOut(Fleet(members[0], members[1:])).drain()

    assert answers[0] == "drained"
    assert isinstance(answers[1], UnavailableError)
    assert "a:1 was not asked" in str(answers[1])
