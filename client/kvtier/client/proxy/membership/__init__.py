"""Who the secondaries of a proxy are: fixed, behind a name, or listed in a file.

Each source is an asynchronous iterator of whole lists of endpoints, in order, each endpoint once.
The first list comes at once, when it can be told, then each that differs from the one before. An
iterator that ends has nothing more to tell: its last list stays.
"""

from collections.abc import AsyncGenerator, Iterable

from kvtier.client.proxy.membership.endpoints import Endpoints, endpoint_list
from kvtier.client.proxy.membership.files import watched_file
from kvtier.client.proxy.membership.names import dns

__all__ = ["Endpoints", "dns", "static", "watched_file"]


def static(endpoints: Iterable[str]) -> AsyncGenerator[Endpoints]:
    """Return a list that never changes.

    Raises:
        InvalidArgumentError: When an endpoint is not host:port.
    """
    return _once(endpoint_list(endpoints))


async def _once(endpoints: Endpoints) -> AsyncGenerator[Endpoints]:
    yield endpoints
