"""How many calls may move bytes at one time."""

from collections.abc import Iterator
from contextlib import contextmanager

from kvtier.server.node import Node
from kvtier.wire.errors import Reason, over_limit

_FULL_RETRY = 0.5


@contextmanager
def transfer(node: Node) -> Iterator[None]:
    """Count the body as a transfer of a node.

    Raises:
        KvtierError: RESOURCE_EXHAUSTED when as many are under way as may be.
    """
    limit = node.config.limits.transfers
    if node.transfers >= limit:
        raise over_limit(
            "transfers",
            f"{limit} transfers are under way, which is the limit: try again, or raise "
            "limits.transfers",
            Reason.TRANSFER_LIMIT,
            retry_after=_FULL_RETRY,
        )
    node.transfers += 1
    try:
        yield
    finally:
        node.transfers -= 1
