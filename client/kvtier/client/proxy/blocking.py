"""The proxy for callers that block."""

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from kvtier.client.loop_thread import LoopThread, OnLoop
from kvtier.client.node import NodeClient
from kvtier.client.proxy.cascades.storing import Storing
from kvtier.client.proxy.fan_out import FanningOut
from kvtier.client.proxy.promotions.loading import Loading
from kvtier.client.proxy.tiering_proxy import SourceStatus, TieringProxy
from kvtier.wire.credentials import Credentials

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


def _blocking(
    part: Callable[[TieringProxy], S],
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["BlockingTieringProxy", P], T]:
    @wraps(method)
    def call(mine: "BlockingTieringProxy", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return mine._run(lambda proxy: method(part(proxy), *args, **kwargs))  # noqa: SLF001 - its methods

    return call


def _on_loop(
    method: Callable[Concatenate[TieringProxy, P], T],
) -> Callable[Concatenate["BlockingTieringProxy", P], T]:
    @wraps(method)
    def call(mine: "BlockingTieringProxy", /, *args: P.args, **kwargs: P.kwargs) -> T:
        async def act(proxy: TieringProxy) -> T:
            return method(proxy, *args, **kwargs)

        return mine._run(act)  # noqa: SLF001 - its methods

    return call


def _itself(proxy: TieringProxy) -> TieringProxy:
    return proxy


def _storing(proxy: TieringProxy) -> Storing:
    return proxy.managing.storing


def _loading(proxy: TieringProxy) -> Loading:
    return proxy.managing.loading


def _everybody(proxy: TieringProxy) -> FanningOut:
    return proxy.managing.everybody


class BlockingTieringProxy(OnLoop[TieringProxy]):
    """A `TieringProxy` for callers that block: its methods, by their names.

    It runs on the event loop in the background that blocking clients share; threads may share it.
    Use it as a context manager, or call `close()`.

    Args:
        primary: The address of the node that this proxy is local to, `host:port`.
        secondaries: The addresses of the nodes behind it, in order.
        timeout: Seconds that a call may take.
        credentials: TLS and who the caller is, towards every node; None for plaintext and nobody.
        options: What `TieringProxy` takes besides.
    """

    def __init__(
        self,
        primary: str,
        secondaries: Sequence[str] = (),
        *,
        timeout: float = 5.0,
        credentials: Credentials | None = None,
        **options: Any,
    ) -> None:
        ending, loop = AsyncExitStack(), LoopThread.hold()
        connect = partial(NodeClient, timeout=timeout, credentials=credentials)
        try:
            proxy = loop.run(_begin(ending, (primary, *secondaries), connect, options))
        except BaseException:
            loop.run(ending.aclose())
            loop.release()
            raise
        super().__init__(loop, proxy, primary, ending.aclose)

    @property
    def sources(self) -> list[SourceStatus]:
        """What is known now of each node, the primary first."""

        async def ask(proxy: TieringProxy) -> list[SourceStatus]:
            return proxy.sources

        return self._run(ask)

    lookup = _blocking(_itself, TieringProxy.lookup)
    rank_nodes = _on_loop(TieringProxy.rank_nodes)
    take_events = _on_loop(TieringProxy.take_events)
    store = _blocking(_storing, Storing.store)
    prepare_store = _blocking(_storing, Storing.prepare_store)
    complete_store = _blocking(_storing, Storing.complete_store)
    load = _blocking(_loading, Loading.load)
    prepare_load = _blocking(_loading, Loading.prepare_load)
    complete_load = _blocking(_loading, Loading.complete_load)
    touch = _blocking(_everybody, FanningOut.touch)
    delete = _blocking(_everybody, FanningOut.delete)
    clear = _blocking(_everybody, FanningOut.clear)
    drain = _blocking(_everybody, FanningOut.drain)


async def _begin(
    ending: AsyncExitStack,
    endpoints: Sequence[str],
    connect: Callable[[str], NodeClient],
    options: dict[str, Any],
) -> TieringProxy:
    clients = [await ending.enter_async_context(connect(each)) for each in endpoints]
    proxy = TieringProxy(clients[0], clients[1:], **{"connect": connect, **options})
    return await ending.enter_async_context(proxy)
