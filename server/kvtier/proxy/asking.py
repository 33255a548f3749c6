"""Asking the nodes behind a proxy, for a time that is known beforehand."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc

from kvtier.client import NodeClient
from kvtier.proxy.behind import Member
from kvtier.wire.errors import KvtierError, Reason, unavailable

T = TypeVar("T")

_RETRY_AFTER = 1.0
# What a node says of a request. Anything else says that it, or the way to it, is broken; that the
# proxy is not known there, or may not do it, is nothing that its caller could mend.
_REFUSALS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)


class Asking:
    """Asks nodes that are not known to be down.

    Args:
        deadline: How long an answer is waited for, in seconds.
    """

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline

    async def ask(self, member: Member, question: Callable[[NodeClient], Awaitable[T]]) -> T:
        """Return what a member answers.

        Raises:
            KvtierError: UNAVAILABLE when it does not, or what it refuses the request with.
        """
        if member.down:
            raise out_of_reach(member, member.reason())
        try:
            async with asyncio.timeout(self._deadline):
                return await question(member.client)
        except TimeoutError:
            why = f"{member.endpoint} did not answer within {self._deadline:g} s"
            raise out_of_reach(member, why) from None
        except KvtierError as error:
            if error.code in _REFUSALS or error.reason == Reason.DRAINING:
                raise
            raise out_of_reach(member, error.message) from None

    async def try_to_ask(
        self, member: Member, question: Callable[[NodeClient], Awaitable[T]]
    ) -> T | KvtierError:
        """Return what a member answers, or why it does not."""
        try:
            return await self.ask(member, question)
        except KvtierError as error:
            return error


def name_of(member: Member) -> str:
    """Return how a member is called: its nodes, or its address before any was heard of."""
    return ", ".join(member.node_ids) or member.endpoint


def out_of_reach(member: Member, why: str) -> KvtierError:
    """Return the error that says that a member did not answer, and why."""
    return unavailable(
        f"{name_of(member)} is out of reach: {why}",
        Reason.PEER_UNREACHABLE,
        retry_after=_RETRY_AFTER,
    )
