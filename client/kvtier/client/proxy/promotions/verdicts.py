"""Blocks that a node was found not to have, whatever its events had told."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kvtier.client.answers import BlockKey
from kvtier.v1.event_service_pb2 import BlockStored, WatchEventsResponse
from kvtier.wire.hashes import split_hashes

if TYPE_CHECKING:
    from kvtier.client.source import Space


class _Denied(NamedTuple):
    node: str
    key: BlockKey


@dataclass(slots=True)
class _InSpace:
    """How many verdicts there are of one node and space, and how wide a hash is there."""

    width: int
    count: int = 0


class Verdicts:
    """Remembers that a node did not have a block, so that nobody asks it for that again and again.

    A verdict ends when the node says that it stored the block, or after a time.

    Args:
        seconds: How long a verdict lasts.
        limit: Most verdicts; the oldest go first.
        clock: The time, in seconds.
    """

    def __init__(
        self,
        *,
        seconds: float,
        limit: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._limit = limit
        self._clock = clock
        self._ends: OrderedDict[_Denied, float] = OrderedDict()
        # So that the events of others cost nothing.
        self._spaces: dict[tuple[str, Space], _InSpace] = {}

    def __len__(self) -> int:
        self._forget_the_old()
        return len(self._ends)

    def deny(self, node: str, key: BlockKey) -> None:
        """Note that a node does not have a block."""
        denied = _Denied(node, key)
        self._drop(denied)
        self._ends[denied] = self._clock() + self._seconds
        here = self._spaces.setdefault((node, key[:3]), _InSpace(len(key.block_hash)))
        here.count += 1
        self._forget_the_old()

    def denies(self, node: str, key: BlockKey) -> bool:
        """Tell whether a node was found not to have a block."""
        return self._ends.get(_Denied(node, key), 0.0) > self._clock()

    def denied(
        self, node: str, namespace: bytes, group: int, scope: bytes, hashes: Sequence[bytes]
    ) -> list[bool]:
        """Return for each block whether a node was found not to have it.

        Args:
            node: The node's id.
            namespace: The fingerprint.
            group: The KV-cache group.
            scope: The scope.
            hashes: The blocks.
        """
        space = namespace, group, scope
        if (node, space) not in self._spaces:
            return [False] * len(hashes)
        return [self.denies(node, BlockKey(*space, each)) for each in hashes]

    def hear(self, message: WatchEventsResponse) -> None:
        """Take in a message of a node's stream: what it stored it has."""
        if not self._spaces:
            return
        for event in _stored(message):
            space = event.namespace, event.group, event.scope
            here = self._spaces.get((message.node_id, space))
            # A length that makes no sense the index finds out, too.
            if here is None or len(event.block_hashes) % here.width:
                continue
            for block_hash in split_hashes(event.block_hashes, here.width):
                self._drop(_Denied(message.node_id, BlockKey(*space, block_hash)))

    def forget(self, node: str) -> None:
        """Take back every verdict of a node, such as one that is gone."""
        for denied in [each for each in self._ends if each.node == node]:
            self._drop(denied)

    def _forget_the_old(self) -> None:
        now = self._clock()
        while self._ends:
            oldest = next(iter(self._ends))
            if self._ends[oldest] > now and len(self._ends) <= self._limit:
                return
            self._drop(oldest)

    def _drop(self, denied: _Denied) -> None:
        if self._ends.pop(denied, None) is None:
            return
        space = denied.node, denied.key[:3]
        self._spaces[space].count -= 1
        if not self._spaces[space].count:
            del self._spaces[space]


def _stored(message: WatchEventsResponse) -> Iterator[BlockStored]:
    yield from message.snapshot.stored
    for batch in message.batches.batches:
        yield from batch.stored
