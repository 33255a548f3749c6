"""Calls whose requests are bytes, for what the client library would not send."""

from typing import Any

import grpc.aio


def raw(channel: grpc.aio.Channel, method: str) -> Any:
    """Return what calls a method of TierService, or one by its full path, with bytes."""
    path = method if method.startswith("/") else f"/kvtier.v1.TierService/{method}"
    return channel.unary_unary(path)
