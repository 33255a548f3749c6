"""Calls to the primary and every secondary at once."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, overload

import grpc

from kvtier.client.errors import KvtierError, typed
from kvtier.client.node import NodeClient
from kvtier.client.proxy.fleet import Endpoint, Fleet, check_names, names_of
from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.node_service_pb2 import DrainResponse
from kvtier.v1.removal_pb2 import ClearTierResponse, DeleteBlocksResponse
from kvtier.v1.tier_service_pb2 import TouchBlocksResponse
from kvtier.wire.errors import Reason

T = TypeVar("T")


class FanOut(Sequence["T | KvtierError"], Generic[T]):
    """What each node answered, the primary first: an answer, or the error in its place.

    Args:
        endpoints: The addresses that were called, in order.
        answers: The answers, in the same order.

    Attributes:
        endpoints: As given.
    """

    def __init__(self, endpoints: Sequence[str], answers: Sequence[T | KvtierError]) -> None:
        self.endpoints = tuple(endpoints)
        self._answers = tuple(answers)

    @overload
    def __getitem__(self, place: int) -> T | KvtierError: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[T | KvtierError]: ...
    def __getitem__(self, place: int | slice) -> T | KvtierError | Sequence[T | KvtierError]:
        return self._answers[place]

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def failed(self) -> dict[str, KvtierError]:
        """Why nodes did not do it, or not all of it, by their addresses.

        Who does not know the namespace has nothing of it: that is none, unless nobody knows it.
        """
        failures = {}
        for endpoint, answer in zip(self.endpoints, self._answers, strict=True):
            failure = answer.failure if isinstance(answer, TiersCleared) else answer
            if isinstance(failure, KvtierError):
                failures[endpoint] = failure
        others = {
            endpoint: failure
            for endpoint, failure in failures.items()
            if failure.reason != Reason.NAMESPACE_UNKNOWN
        }
        nobody_knows_it = not others and len(failures) == len(self)
        return failures if nobody_knows_it else others

    @property
    def complete(self) -> bool:
        """Whether every node did all of it."""
        return not self.failed


@dataclass(frozen=True, slots=True)
class TiersCleared:
    """What became of the tiers that were to be cleared at one node.

    Attributes:
        tiers: What the node answered for each tier, by its name.
    """

    tiers: Mapping[str, ClearTierResponse | KvtierError]

    @property
    def failure(self) -> KvtierError | None:
        """Why the first tier that was not cleared was not; None when all were."""
        return next((each for each in self.tiers.values() if isinstance(each, KvtierError)), None)


class FanningOut:
    """Calls the primary and every secondary at once; none waits for another.

    A member that is down is not asked, and told as UNAVAILABLE. Nothing is raised: who did not do
    it shows in the answers' `failed`.

    Args:
        fleet: The nodes.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def touch(
        self, namespace: bytes, blocks: Sequence[BlockSet], *, request_id: str = ""
    ) -> FanOut[TouchBlocksResponse]:
        """Stamp blocks as used, in every tier of every node.

        Args:
            namespace: The fingerprint, 32 bytes.
            blocks: The blocks, numbered by their place over all sets.
            request_id: The request that used them.
        """
        return await self._ask(
            lambda member: member.client.touch(namespace, blocks, request_id=request_id)
        )

    async def delete(
        self, namespace: bytes, blocks: Sequence[BlockSet], *, force: bool = False
    ) -> FanOut[DeleteBlocksResponse]:
        """Remove blocks from every tier of every node; absent ones are passed over.

        Args:
            namespace: The fingerprint, 32 bytes.
            blocks: The blocks, numbered by their place over all sets.
            force: Remove leased blocks too.
        """
        return await self._ask(lambda member: member.client.delete(namespace, blocks, force=force))

    async def clear(
        self,
        tiers: Mapping[str, Sequence[str]] | None = None,
        namespace: bytes = b"",
        *,
        force: bool = False,
    ) -> FanOut[TiersCleared]:
        """Remove every block of tiers, or of one namespace there.

        Args:
            tiers: The names of the tiers to clear, by a member's address or node id; those of a
                member that is not named stay as they are. None means every tier of every node.
            namespace: The fingerprint of the only namespace to clear; empty means all.
            force: Clear leased blocks too.

        Raises:
            InvalidArgumentError: When `tiers` names what is no member's; nothing was cleared.
        """
        members = (self._fleet.primary, *self._fleet.secondaries)
        check_names("tiers", tiers or (), members, "member")

        async def clear(member: Endpoint) -> TiersCleared:
            names = _named(tiers, member)
            if names is None:
                names = [tier.name for tier in await member.client.list_tiers()]
            return await _clear(member.client, names, namespace, force=force)

        return await self._ask(clear, lambda member: _named(tiers, member) != [])

    async def drain(self) -> FanOut[DrainResponse]:
        """Let every node take no more stores, and tell what was left under way at each."""
        return await self._ask(lambda member: member.client.drain())

    async def _ask(
        self,
        call: Callable[[Endpoint], Awaitable[T]],
        concerns: Callable[[Endpoint], bool] = lambda _: True,
    ) -> FanOut[T]:
        members = [
            member for member in (self._fleet.primary, *self._fleet.secondaries) if concerns(member)
        ]
        answers = await asyncio.gather(*(_answer(member, call) for member in members))
        return FanOut([member.endpoint for member in members], answers)


async def _answer(member: Endpoint, call: Callable[[Endpoint], Awaitable[T]]) -> T | KvtierError:
    if member.down:
        return typed(
            grpc.StatusCode.UNAVAILABLE,
            "",
            f"{member.endpoint} was not asked: {member.reason() or 'it is down'}",
            metadata={"endpoint": member.endpoint},
        )
    try:
        return await call(member)
    except KvtierError as error:
        return error


def _named(tiers: Mapping[str, Sequence[str]] | None, member: Endpoint) -> Sequence[str] | None:
    """Return the tiers of a member to clear; None means all of them."""
    if tiers is None:
        return None
    names = [name for who in names_of(member) for name in tiers.get(who, ())]
    return list(dict.fromkeys(names))


async def _clear(
    client: NodeClient, names: Sequence[str], namespace: bytes, *, force: bool
) -> TiersCleared:
    async def clear(name: str) -> ClearTierResponse | KvtierError:
        try:
            return await client.clear(name, namespace, force=force)
        except KvtierError as error:
            return error

    # The fastest first: what it hands down meanwhile is then cleared below.
    return TiersCleared({name: await clear(name) for name in names})
