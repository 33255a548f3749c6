"""The kinds of values that settings have, and how they are read."""

import ipaddress
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints

from kvtier.wire.sizes import parse_size


def _no_flag(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"{value} is not a number; write one")  # noqa: TRY004 - pydantic wants it
    return value


# A size in bytes, read by `parse_size`: bytes, or a number with a unit such as 64GiB.
Size = Annotated[int, BeforeValidator(parse_size)]
# A whole number above 0.
Count = Annotated[int, BeforeValidator(_no_flag), Field(ge=1, le=2**31 - 1)]
# A time in seconds.
Seconds = Annotated[float, BeforeValidator(_no_flag), Field(allow_inf_nan=False)]
# A short name, as in paths, metrics and command lines.
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,63}$")]
# A node's id: what a host name may hold.
NodeId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.-]{1,253}$")]


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


def is_loopback(host: str) -> bool:
    """Return whether an address, or the name localhost, reaches this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
