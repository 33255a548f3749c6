"""The same calls for callers that block."""

import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from kvtier.client.loop_thread import LoopThread, OnLoop
from kvtier.client.mapped.blocking import BlockingBlocks
from kvtier.client.mapped.blocks import Blocks
from kvtier.client.node import NodeClient
from kvtier.wire.credentials import Credentials

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _Stream(Protocol[T_co]):
    def __aiter__(self) -> AsyncIterator[T_co]: ...

    def aclose(self) -> Coroutine[Any, Any, None]: ...


class _Client(OnLoop[NodeClient]):
    """A `NodeClient` on the background loop."""

    def __init__(
        self,
        endpoint: str,
        *,
        owner: str | None = None,
        timeout: float = 5.0,
        credentials: Credentials | None = None,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        node = NodeClient(
            endpoint,
            owner=owner,
            timeout=timeout,
            credentials=credentials,
            random_bytes=random_bytes,
        )
        super().__init__(LoopThread.hold(), node, node.endpoint, node.close)

    @property
    def endpoint(self) -> str:
        """The node's address."""
        return self._subject.endpoint

    @property
    def owner(self) -> str:
        """Who holds the leases that this client takes."""
        return self._subject.owner

    def _iterate(self, call: Callable[[NodeClient], _Stream[T]]) -> Iterator[T]:
        async def start(node: NodeClient) -> _Stream[T]:
            return call(node)

        async def step(_: NodeClient) -> tuple[T] | None:
            async for item in stream:
                return (item,)
            return None

        async def stop(_: NodeClient) -> None:
            await stream.aclose()

        stream = self._run(start)
        try:
            while (found := self._run(step)) is not None:
                yield found[0]
        finally:
            if self._loop is not None:
                self._run(stop)


def _blocking(
    method: Callable[Concatenate[NodeClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    @wraps(method)
    def call(client: _Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client._run(lambda node: method(node, *args, **kwargs))  # noqa: SLF001 - its methods

    return call


def _iterating(
    method: Callable[Concatenate[NodeClient, P], _Stream[T]],
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    @wraps(method)
    def call(client: _Client, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return client._iterate(lambda node: method(node, *args, **kwargs))  # noqa: SLF001 - its methods

    return call


def _with_blocks(
    method: Callable[Concatenate[NodeClient, P], Blocks],
) -> Callable[Concatenate[Any, P], BlockingBlocks]:
    @wraps(method)
    def call(client: _Client, /, *args: P.args, **kwargs: P.kwargs) -> BlockingBlocks:
        def run(start: Callable[[], Coroutine[Any, Any, T]], /) -> T:
            return client._run(lambda _: start())  # noqa: SLF001 - its methods

        return BlockingBlocks(method(client._subject, *args, **kwargs), run)  # noqa: SLF001

    return call


class BlockingNodeClient(_Client):
    """A client of one node for callers that block: every method of `NodeClient`, by its name.

    The calls run on one event loop on a background thread, shared by all blocking clients of the
    process; threads may share a client. What yields there is an iterator here.

    Args:
        endpoint: The node's address, `host:port`.
        owner: Who holds the leases that this client takes.
        timeout: Seconds that a call may take, and that a transfer may stand still.
        credentials: TLS and who the caller is; None for plaintext and nobody.
        random_bytes: Where lease ids come from.
    """

    blocks = _with_blocks(NodeClient.blocks)
    is_ready = _blocking(NodeClient.is_ready)
    get_node = _blocking(NodeClient.get_node)
    list_tiers = _blocking(NodeClient.list_tiers)
    register_namespace = _blocking(NodeClient.register_namespace)
    list_namespaces = _blocking(NodeClient.list_namespaces)
    delete_namespace = _blocking(NodeClient.delete_namespace)
    drain = _blocking(NodeClient.drain)
    lookup = _blocking(NodeClient.lookup)
    touch = _blocking(NodeClient.touch)
    copy = _iterating(NodeClient.copy)
    delete = _blocking(NodeClient.delete)
    clear = _blocking(NodeClient.clear)
    list_blocks = _iterating(NodeClient.list_blocks)
    list_blocks_page = _blocking(NodeClient.list_blocks_page)
    describe_block = _blocking(NodeClient.describe_block)
    prepare_store = _blocking(NodeClient.prepare_store)
    complete_store = _blocking(NodeClient.complete_store)
    prepare_load = _blocking(NodeClient.prepare_load)
    complete_load = _blocking(NodeClient.complete_load)
    renew_leases = _blocking(NodeClient.renew_leases)
    release_leases = _blocking(NodeClient.release_leases)
    pin = _blocking(NodeClient.pin)
    unpin = _blocking(NodeClient.unpin)
    store = _blocking(NodeClient.store)
    map_tier = _blocking(NodeClient.map_tier)
    write_blocks = _blocking(NodeClient.write_blocks)
    load = _blocking(NodeClient.load)
    load_into = _blocking(NodeClient.load_into)
    read_blocks = _blocking(NodeClient.read_blocks)
    read_blocks_into = _blocking(NodeClient.read_blocks_into)
    watch_events = _iterating(NodeClient.watch_events)
