"""Which namespaces a request is about, for callers who may use some of them only."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from kvtier.v1.block_pb2 import Lease
from kvtier.v1.event_service_pb2 import WatchEventsRequest
from kvtier.v1.lease_stream_pb2 import LeaseBlocksRequest
from kvtier.v1.tier_service_pb2 import RegisterNamespaceRequest
from kvtier.v1.transfer_service_pb2 import ReadBlocksRequest, WriteBlocksRequest
from kvtier.wire.errors import invalid, quote
from kvtier.wire.namespaces import MAX_TEXT


class Known(Protocol):
    """What a server knows of namespaces."""

    def name_of(self, fingerprint: bytes) -> str:
        """Return the name of a namespace.

        Raises:
            KvtierError: When it is none, or not known.
        """
        ...

    def leased(self, lease_id: bytes) -> str | None:
        """Return the name of the namespace of an open lease; None when there is none such."""
        ...


Scope = Callable[[Any, Known], Iterable[str]]
"""Returns the names of a request's namespaces; raises `ActsOnAllError`, or why one is none."""


class ActsOnAllError(Exception):
    """A request is about all namespaces; the message says what can be done in its place."""


def no_namespace(_request: Any, _known: Known) -> Iterable[str]:
    """Be about no namespace: the answer is for every caller."""
    return ()


def every_namespace(instead: str) -> Scope:
    """Be about all namespaces, always."""

    def scope(_request: Any, _known: Known) -> Iterable[str]:
        raise ActsOnAllError(instead)

    return scope


def the_namespace(request: Any, known: Known) -> Iterable[str]:
    """Be about the namespace that the request must name."""
    return (known.name_of(request.namespace),)


def the_namespace_or_all(request: Any, known: Known) -> Iterable[str]:
    """Be about the namespace that the request names, or all when it names none."""
    if not request.namespace:
        raise ActsOnAllError("set namespace")
    return the_namespace(request, known)


def watched(request: WatchEventsRequest, known: Known) -> Iterable[str]:
    """Be about the namespaces that a follower wants to hear of, or all."""
    if not request.namespaces:
        raise ActsOnAllError("set namespaces")
    return map(known.name_of, request.namespaces)


def described(request: RegisterNamespaceRequest, _known: Known) -> Iterable[str]:
    """Be about the namespace that the request describes."""
    name = request.namespace.name
    # To compare a very long one with patterns takes very long.
    if len(name) > MAX_TEXT:
        raise invalid(f"name is {quote(name)}; at most {MAX_TEXT} bytes are allowed")
    return (name,)


def the_lease(request: Any, known: Known) -> Iterable[str]:
    """Be about the namespace of the lease that the request names."""
    return _of([request.lease], known)


def the_leases(request: Any, known: Known) -> Iterable[str]:
    """Be about the namespaces of the leases that the request names."""
    return _of(request.leases, known)


def leases_or_all_of_an_owner(request: Any, known: Known) -> Iterable[str]:
    """Be about the namespaces of the leases that the request names, or all if of an owner."""
    if request.owner:
        raise ActsOnAllError("name leases, and no owner")
    return the_leases(request, known)


def written(message: tuple[WriteBlocksRequest, memoryview], known: Known) -> Iterable[str]:
    """Be about the namespace of what is written; further messages name none."""
    request, _ = message
    match request.WhichOneof("target"):
        case "lease":
            return _of([request.lease], known)
        case "offer":
            return (known.name_of(request.offer.namespace),)
        case _:
            return ()


def read(request: ReadBlocksRequest, known: Known) -> Iterable[str]:
    """Be about the namespace of what is read."""
    if request.WhichOneof("source") == "lease":
        return _of([request.lease], known)
    return (known.name_of(request.blocks.namespace),)


def calls(request: LeaseBlocksRequest, known: Known) -> Iterator[str]:
    """Be about what each call in a message is about."""
    for call in request.calls:
        kind = call.WhichOneof("request")
        if kind is not None:
            yield from CALLS[kind](getattr(call, kind), known)


CALLS: dict[str, Scope] = {
    "prepare_store": the_namespace,
    "complete_store": the_lease,
    "prepare_load": the_namespace,
    "complete_load": the_lease,
    "renew_leases": the_leases,
    "release_leases": leases_or_all_of_an_owner,
}


def _of(leases: Sequence[Lease], known: Known) -> Iterator[str]:
    for lease in leases:
        name = known.leased(lease.id)
        if name is not None:
            yield name
