"""Taking a server's address: all of it and alone, or an error that says what is wrong."""

import errno
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import grpc

from kvtier.server.config.addresses import is_unix, split_endpoint
from kvtier.server.serving.starting import Binding, StartError
from kvtier.server.serving.unix_sockets import bind_socket, remove_socket

# This machine has no such address, or no such kind of address.
_NOT_HERE = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}


def listen_on(
    server: Binding,
    endpoint: str,
    credentials: Callable[[], grpc.ServerCredentials] | None = None,
    *,
    setting: str = "--listen",
) -> str:
    """Bind a server and return the endpoint with the real port.

    A name such as localhost stands for several addresses. gRPC is content with any of them, so that
    two servers could share a name; here every one that the machine has must be free.

    Args:
        server: The server, not started.
        endpoint: HOST:PORT; port 0 takes any free one. Or unix:/PATH.
        credentials: Makes what each of its addresses is served with; None for plaintext.
        setting: Where the endpoint is from.

    Raises:
        StartError: When it cannot be bound.
    """
    bind = partial(_bind, server, credentials)
    if is_unix(endpoint):
        bind_socket(bind, endpoint, setting)
        return endpoint
    host, port = split_endpoint(endpoint)
    for address in _addresses(host, port, endpoint, setting):
        literal = f"[{address[0]}]" if ":" in address[0] else address[0]
        try:
            port = bind(f"{literal}:{port}")
        except RuntimeError:
            raise _refusal(endpoint, "the address is in use", setting) from None
    return f"{endpoint.rpartition(':')[0]}:{port}"


def _bind(
    server: Binding,
    credentials: Callable[[], grpc.ServerCredentials] | None,
    address: str,
) -> int:
    if credentials is None:
        return server.add_insecure_port(address)
    return server.add_secure_port(address, credentials())


def leave(endpoint: str) -> None:
    """Leave nothing behind of an address; its server has stopped."""
    if is_unix(endpoint):
        remove_socket(endpoint)


def _addresses(host: str, port: int, endpoint: str, setting: str) -> list[Any]:
    """Return the addresses to bind; each could be bound a moment ago."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise _refusal(endpoint, f"{host} has no address: {error.strerror}", setting) from None
    problems = {address: _problem(family, address) for family, _, _, _, address in found}
    usable = [address for address, problem in problems.items() if problem is None]
    for problem in problems.values():
        if problem is not None and not (usable and problem.errno in _NOT_HERE):
            raise _refusal(endpoint, (problem.strerror or str(problem)).lower(), setting)
    return usable


def _problem(family: int, address: Any) -> OSError | None:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As gRPC does: connections of a server that has just ended are not in the way.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen()
    except OSError as error:
        return error
    return None


def _refusal(endpoint: str, why: str, setting: str) -> StartError:
    return StartError(
        f"cannot listen on {endpoint}: {why}; stop the program that is there, or choose another "
        f"address with {setting}"
    )
