"""Bearer tokens: reading one, sending it with every call, and where it may go in plaintext."""

import ipaddress
import re
from collections.abc import Callable
from typing import Any, Self

import grpc
import grpc.aio

# RFC 6750, section 2.1.
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_LONGEST_TOKEN = 4096


def is_token(text: str) -> bool:
    """Tell whether a text can be sent as a bearer token."""
    return len(text) <= _LONGEST_TOKEN and _TOKEN.fullmatch(text) is not None


def is_this_host(target: str) -> bool:
    """Tell whether a gRPC target is on this host, so that nobody else sees what is sent there."""
    if target.startswith("unix:"):
        return True
    address = target.rpartition("/")[2]
    for scheme in ("dns:", "ipv4:", "ipv6:"):
        address = address.removeprefix(scheme)
    host = address.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class BearerChannel(grpc.aio.Channel):
    """A channel whose every call carries a token.

    gRPC's own call credentials need TLS also on loopback, and cost each call a turn of another
    thread; its interceptors cost a task.

    Args:
        channel: The channel that it stands for.
        token: The token.
    """

    def __init__(self, channel: grpc.aio.Channel, token: str) -> None:
        self._channel = channel
        self._header = ("authorization", f"Bearer {token}")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        """Close the channel, as gRPC's does."""
        await self._channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """Return whether it is connected."""
        return self._channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Wait until it is in another state."""
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """Wait until it is connected."""
        await self._channel.channel_ready()

    def unary_unary(self, *args: Any, **kwargs: Any) -> Any:
        """Return a method with one message each way."""
        return self._with_token(self._channel.unary_unary(*args, **kwargs))

    def unary_stream(self, *args: Any, **kwargs: Any) -> Any:
        """Return a method whose answer is a stream."""
        return self._with_token(self._channel.unary_stream(*args, **kwargs))

    def stream_unary(self, *args: Any, **kwargs: Any) -> Any:
        """Return a method whose request is a stream."""
        return self._with_token(self._channel.stream_unary(*args, **kwargs))

    def stream_stream(self, *args: Any, **kwargs: Any) -> Any:
        """Return a method with a stream each way."""
        return self._with_token(self._channel.stream_stream(*args, **kwargs))

    def _with_token(self, method: Callable[..., Any]) -> Callable[..., Any]:
        header = self._header

        def call(*args: Any, metadata: Any = None, **kwargs: Any) -> Any:
            return method(*args, metadata=(*(metadata or ()), header), **kwargs)

        return call
