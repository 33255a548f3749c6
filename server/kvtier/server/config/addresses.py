"""Addresses: HOST:PORT or unix:/PATH, and where a server may listen."""

import ipaddress
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

_UNIX = "unix:"
# What `sockaddr_un` holds, less the byte that ends it.
_MOST_PATH_BYTES = 107


def split_endpoint(endpoint: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`; an IPv6 address stands in brackets.

    Raises:
        ValueError: When there is no host, no port from 0 to 65535, or no pair of brackets around
            an address that has colons.
    """
    host, colon, port = endpoint.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    digits = port.isascii() and port.isdigit() and len(port) <= 5
    if not colon or not host or not digits or int(port) > 65535:
        raise ValueError(
            f"{endpoint!r:.80} is not HOST:PORT; write an address and a port from 0 to 65535, "
            "such as 127.0.0.1:7600"
        )
    if ":" in host and not bracketed:
        raise ValueError(
            f"{endpoint!r:.80} is ambiguous; write an IPv6 address in brackets, such as [::1]:7600"
        )
    return host, int(port)


def _check_endpoint(endpoint: str) -> str:
    split_endpoint(endpoint)
    return endpoint


# HOST:PORT of something to listen on that is no danger beyond loopback.
Endpoint = Annotated[str, AfterValidator(_check_endpoint)]


def is_unix(endpoint: str) -> bool:
    """Return whether an endpoint is meant to be a socket of the file system."""
    return endpoint.startswith(_UNIX)


def unix_path(endpoint: str) -> Path:
    """Return the path of `unix:/PATH`.

    Raises:
        ValueError: When it is not absolute, or longer than the system allows.
    """
    path = endpoint.removeprefix(_UNIX)
    if not path.startswith("/") or path.startswith("//") or path.endswith("/") or "\0" in path:
        raise ValueError(
            f"{endpoint!r:.80} is not unix:/PATH; write the whole path of the socket, such as "
            "unix:/run/kvtier/node.sock"
        )
    length = len(path.encode())
    if length > _MOST_PATH_BYTES:
        raise ValueError(
            f"the path of {endpoint!r:.80} has {length} bytes; a socket's path may have "
            f"{_MOST_PATH_BYTES}"
        )
    return Path(path)


def check_address(endpoint: str) -> str:
    """Return an address to listen on, if it is one.

    Raises:
        ValueError: When it is neither HOST:PORT nor unix:/PATH.
    """
    if is_unix(endpoint):
        unix_path(endpoint)
    else:
        split_endpoint(endpoint)
    return endpoint


# An address to listen on.
Address = Annotated[str, AfterValidator(check_address)]


def is_local(address: str) -> bool:
    """Return whether an address to listen on can be reached from this machine only."""
    return is_unix(address) or _is_loopback(split_endpoint(address)[0])


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def check_listen(listen: str, *, tls: bool, insecure: bool, tokens: bool) -> str:
    """Return the address to listen on, if that is allowed.

    Args:
        listen: HOST:PORT, or unix:/PATH.
        tls: Whether what is sent is encrypted.
        insecure: Whether that may be missing.
        tokens: Whether callers send tokens.

    Raises:
        ValueError: When it is no address, or is beyond loopback without TLS, though `insecure` does
            not allow it or tokens would be sent.
    """
    check_address(listen)
    if tls or is_local(listen):
        return listen
    if not insecure:
        raise ValueError(
            f"{listen!r} can be reached from other machines, and there is no TLS; set tls, or "
            "listen on 127.0.0.1, or set insecure (--insecure) to accept it"
        )
    if tokens:
        raise ValueError(
            f"{listen!r} can be reached from other machines, and without TLS auth.tokens would be "
            "sent for everyone to read; set tls in place of insecure, or listen on 127.0.0.1"
        )
    return listen


def check_servers(endpoints: Sequence[str], what: str) -> None:
    """Check that these are distinct addresses of servers.

    Args:
        endpoints: The addresses.
        what: What each is the address of, in a word.

    Raises:
        ValueError: When one is neither HOST:PORT nor unix:/PATH, has port 0, or is listed twice.
    """
    for endpoint, count in Counter(endpoints).items():
        check_address(endpoint)
        if not is_unix(endpoint) and not split_endpoint(endpoint)[1]:
            raise ValueError(f"{endpoint!r} has port 0; write the port that the {what} listens on")
        if count > 1:
            raise ValueError(f"{endpoint!r} is listed {count} times; list each {what} once")
