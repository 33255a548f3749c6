"""Lists of endpoints: checked, in order, each once."""

from collections.abc import Iterable

from kvtier.client.arguments import bad_argument
from kvtier.client.channel import check_endpoint
from kvtier.client.errors import InvalidArgumentError
from kvtier.wire.errors import quote

Endpoints = tuple[str, ...]
"""Who is there: all endpoints, in order, each once."""

_SCHEMES = ("unix:", "dns:", "ipv4:", "ipv6:")


def endpoint_list(endpoints: Iterable[str]) -> Endpoints:
    """Return endpoints in their order, each once.

    Raises:
        InvalidArgumentError: When one is no endpoint.
    """
    if isinstance(endpoints, str):
        raise bad_argument(f"endpoints must be a sequence of host:port; got {quote(endpoints)}")
    return tuple(dict.fromkeys(map(_checked, endpoints)))


def parse_endpoints(text: str) -> Endpoints:
    """Return the endpoints that a text names: one a line, `#` begins a comment.

    Raises:
        ValueError: When a line is no endpoint, or the text is empty. A text that means to name
            nobody says so in a comment, so that a file which was cut short is not taken for it.
    """
    if not text.strip():
        raise ValueError("it is empty; a line '# none' says that there is nobody")
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        endpoint = line.partition("#")[0].strip()
        try:
            if endpoint:
                found.append(_checked(endpoint))
        except InvalidArgumentError as error:
            raise ValueError(f"line {number}: {error.message}") from None
    return tuple(dict.fromkeys(found))


def join(host: str, port: int) -> str:
    """Return the endpoint of a name or an address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _checked(endpoint: str) -> str:
    endpoint = check_endpoint(endpoint)
    host = endpoint.rpartition(":")[0]
    bare = not (host.startswith("[") and host.endswith("]"))
    if not endpoint.startswith(_SCHEMES) and ("," in host or (":" in host and bare)):
        raise bad_argument(
            f"endpoint must be one host:port, an IPv6 address in brackets; got {quote(endpoint)}"
        )
    return endpoint
