"""Members of a proxy as a test wants them, and an index that holds what their scripts tell."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvtier.client import BlockIndex, NodeClient, Quality
from kvtier.proxy.reading import ReadService
from kvtier.v1.event_service_pb2 import BlockStored, SourceState, State, WatchEventsResponse
from kvtier.v1.tier_pb2 import Limits, Node
from tests.unit.client.messages import Script

LIVE = SourceState.SOURCE_STATE_LIVE
SUSPECT = SourceState.SOURCE_STATE_SUSPECT
DOWN = SourceState.SOURCE_STATE_DOWN
CONNECTING = SourceState.SOURCE_STATE_CONNECTING
MOST_HASHES = 20_000


@dataclass
class FakeMember:
    """An endpoint whose states a test sets."""

    endpoint: str
    node_ids: list[str]
    client: NodeClient
    states: dict[str, SourceState.ValueType] = field(default_factory=dict)

    def state(self, node_id: str = "") -> SourceState.ValueType:
        return self.states.get(node_id, LIVE if node_id else CONNECTING)

    def reason(self, node_id: str = "") -> str:
        return f"{self.endpoint} is {SourceState.Name(self.state(node_id))}"

    @property
    def down(self) -> bool:
        return all(self.state(node) == DOWN for node in self.node_ids or [""])


class FakeMembers:
    """Members whose nodes are in touch as their states say."""

    def __init__(self, index: BlockIndex, members: Sequence[FakeMember]) -> None:
        self.members = list(members)
        self._index = index

    @property
    def primary(self) -> FakeMember:
        return self.members[0]

    def __iter__(self) -> Iterator[FakeMember]:
        return iter(self.members)

    def trusts(self, node_id: str) -> bool:
        states = [m.state(node_id) for m in self.members if node_id in m.node_ids]
        return states == [LIVE] and self._index.quality(node_id) is Quality.EXACT


class Behind:
    """A proxy's reading side over scripted nodes.

    Attributes:
        index: What the nodes told.
        members: One for each node, or for each list of nodes.
        scripts: Writes the nodes' messages, by node.
        service: The reading side.
    """

    def __init__(self, *nodes: str | Sequence[str]) -> None:
        self.index = BlockIndex()
        lists = [[each] if isinstance(each, str) else list(each) for each in nodes]
        self.members = FakeMembers(
            self.index,
            [
                FakeMember(f"host-{place}:7600", names, NodeClient("127.0.0.1:1"))
                for place, names in enumerate(lists)
            ],
        )
        self.scripts = {name: Script(name) for names in lists for name in names}
        identity = Node(node_id="proxy", incarnation=7, limits=Limits(hashes=MOST_HASHES))
        self.service = ReadService(self.members, self.index, identity, lambda: 3)

    def hears(self, node: str, *parts: BlockStored, tiers: Sequence[Any] = ("cpu0",)) -> None:
        """Let the index hear a node's tiers and a whole snapshot of it."""
        script = self.scripts[node]
        reset, *rest = script.start(*parts)
        named = [script.tier(*((t,) if isinstance(t, str) else t)) for t in tiers]
        for message in (reset, *named, *rest):
            self.index.apply(message)

    def turns(self, node: str, state: SourceState.ValueType) -> None:
        """Let a node be in a state, as its watch would tell the index."""
        for member in self.members:
            if node in member.node_ids:
                member.states[node] = state
        told = WatchEventsResponse(node_id=node, state=State(source=state))
        self.index.apply(told)
