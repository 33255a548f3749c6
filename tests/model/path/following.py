"""One follower of one node, by the client's own watch; each message is checked."""

from functools import partial

from kvtier.client import BlockIndex, NodeClient, Quality, Watch
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import NodePosition

from .auditor import Auditor
from .nodes import PathNode
from .reading import Reader, check_watch, quick_watch
from .relay import HoldingRelay
from .views import in_step, where
from .wanted import Wanted

# Ahead of every log of this test.
_FAR_AHEAD = 1 << 30


class Following:
    """One node, as one follower follows it.

    Attributes:
        node: The node.
        relay: What lies between.
        auditor: Checks each message.
        reader: Reads them.
        away: Whether the follower left.
    """

    def __init__(
        self,
        node: PathNode,
        relay: HoldingRelay,
        index: BlockIndex,
        auditor: Auditor,
        wanted: Wanted,
    ) -> None:
        self.node = node
        self.relay = relay
        self.auditor = auditor
        self.reader = Reader()
        self.away = True
        self.client = NodeClient(relay.endpoint)
        self._index = index
        self._wanted = wanted
        self._watch: Watch | None = None
        self._positions: list[NodePosition] = []

    def come(self) -> None:
        """Follow from where it left, or from the start."""
        self.away = False
        self.auditor.reopen()
        self._watch = quick_watch(self.client, positions=self._positions, **self._wanted.arguments)
        self.reader.begin(self._read(self._watch))

    async def leave(self) -> None:
        """Stop following; remember the position. Raise what a message did wrong."""
        if self._watch is None or self.away:
            return
        self.away = True
        await self.reader.end()
        self._positions = self._watch.positions
        await self._watch.close()
        self._check(self._watch)

    def pretend(self) -> None:
        """Claim a position to which the node's log has not come."""
        node_id, epoch = self.node.node_id, self.node.life.epoch
        self.auditor.at(node_id, epoch, _FAR_AHEAD)
        position = Position(epoch=epoch, sequence=_FAR_AHEAD)
        self._positions = [NodePosition(node_id=node_id, position=position)]

    @property
    def trusts(self) -> bool:
        """Whether the view counts as what the node holds."""
        return self._index.quality(self.node.node_id) is Quality.EXACT

    def check(self) -> None:
        """Raise what a message did wrong."""
        if self._watch is not None and not self.away:
            self._check(self._watch)

    async def settle(self) -> None:
        """Read on until everything is known that the node ever told its log."""
        await self.reader.until(partial(in_step, self._index, self.node), self._state)

    async def catch_up(self) -> None:
        """Come back if it is away, let everything through, and settle."""
        if self.away:
            self.come()
        self.relay.go_on()
        self.reader.may_read.set()
        await self.settle()

    async def _read(self, watch: Watch) -> None:
        while True:
            await self.reader.may_read.wait()
            message = await anext(watch)
            self.auditor.take(message)
            self._index.apply(message)
            self.reader.moved()

    def _check(self, watch: Watch) -> None:
        self.reader.check()
        check_watch(watch)

    def _state(self) -> str:
        return f"{where(self._index, self.node)}; seen {dict(self.auditor.seen)}"
