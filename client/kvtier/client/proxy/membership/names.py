"""Members by a name: the addresses of a headless service."""

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from ipaddress import ip_address

from kvtier.client.arguments import bad_argument
from kvtier.client.channel import check_endpoint
from kvtier.client.proxy.membership.endpoints import Endpoints, join
from kvtier.client.proxy.membership.looking import UnclearError, look_out, warn
from kvtier.wire.errors import quote

Resolve = Callable[[str], Awaitable[Iterable[str]]]
"""Returns the addresses of a name; raises OSError, of which some gaierrors say that it has none."""

_NO_ADDRESS = {
    getattr(socket, name) for name in ("EAI_NONAME", "EAI_NODATA") if hasattr(socket, name)
}


async def resolve_by_system(name: str) -> list[str]:
    """Return the addresses of a name, as the system resolves it."""
    found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def dns(
    name: str,
    port: int,
    interval: float = 5.0,
    *,
    patience: float = 30.0,
    resolve: Resolve = resolve_by_system,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    tell: Callable[[str], None] = warn,
) -> AsyncGenerator[Endpoints]:
    """Return the endpoints behind a name, sorted by address, whenever they changed.

    An answer with addresses counts at once. That there are none counts at once as the first
    answer, and later when every answer said so for some time: nodes that restart together are not
    all given up. An answer that fails tells nothing: the last list stays for as long as no other
    comes, since a resolver that is down says nothing of the nodes. Before the first answer nothing
    is returned.

    Of a name with addresses of both families those of IPv4 count, so that no node comes twice.

    Args:
        name: The name, such as that of a headless service.
        port: The port of each node.
        interval: Seconds from one question to the next.
        patience: Seconds for which a name that lost all its addresses keeps the last list.
        resolve: Returns the addresses of a name.
        clock: Monotonic seconds.
        sleep: Waits for seconds.
        tell: Told, once, why the list is not renewed.

    Raises:
        InvalidArgumentError: When the name, the port, the interval or the patience is malformed.
    """
    if not isinstance(port, int) or isinstance(port, bool):
        raise bad_argument(f"port must be a whole number; got {quote(port)}")
    if not isinstance(name, str) or not name or set(name) & set(":/,[]"):
        raise bad_argument(f"name must be a host name without a port; got {quote(name)}")
    check_endpoint(join(name, port))
    if not patience >= 0:
        raise bad_argument(f"patience must be at least 0 s; got {quote(patience)}")
    belief = Belief(name, port, patience)

    async def look() -> Endpoints | None:
        try:
            addresses = list(await resolve(name))
        except (OSError, UnicodeError) as error:
            if not isinstance(error, socket.gaierror) or error.errno not in _NO_ADDRESS:
                raise belief.failed(error) from None
            addresses = []
        return belief.answered(addresses, clock())

    return look_out(look, interval=interval, sleep=sleep, tell=tell)


class Belief:
    """Who is there, by what a resolver answered so far.

    Args:
        name: The name.
        port: The port of each node.
        patience: Seconds for which a name that lost all its addresses keeps them.
    """

    def __init__(self, name: str, port: int, patience: float) -> None:
        self._name = name
        self._port = port
        self._patience = patience
        self._had_some = False
        self._none_since: float | None = None

    def answered(self, addresses: Iterable[str], now: float) -> Endpoints:
        """Return who is there after an answer.

        Raises:
            UnclearError: When the name lost all its addresses a short time ago.
        """
        endpoints = endpoints_at(addresses, self._port)
        if endpoints:
            self._had_some, self._none_since = True, None
            return endpoints
        since = self._none_since = now if self._none_since is None else self._none_since
        if self._had_some and (now == since or now - since < self._patience):
            raise UnclearError(
                f"{self._name} has no address any more; if that stays so for "
                f"{self._patience:g} s, its nodes are given up"
            )
        self._had_some = False
        return ()

    def failed(self, error: Exception) -> UnclearError:
        """Take note that there was no answer, and return why it is unclear who is there."""
        self._none_since = None
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return UnclearError(f"{self._name} cannot be resolved: {why}; its last nodes stay")


def endpoints_at(addresses: Iterable[str], port: int) -> Endpoints:
    """Return the endpoints at addresses of one family, IPv4 when there are some, in order."""
    found = sorted(map(ip_address, set(addresses)), key=lambda each: (each.version, int(each)))
    return tuple(join(str(each), port) for each in found if each.version == found[0].version)
