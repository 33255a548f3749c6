"""Building and asking an index."""

from typing import Any

from hypothesis import strategies as st

from kvtier.client import BlockIndex, BlockKey
from kvtier.v1.event_service_pb2 import (
    SourceState,
    State,
    WatchEventsResponse,
)

from .messages import (
    FINGERPRINT,
    Script,
    cleared,
    hash_of,
    removed,
    stored,
)

DOWN, LIVE = SourceState.SOURCE_STATE_DOWN, SourceState.SOURCE_STATE_LIVE
SUSPECT = SourceState.SOURCE_STATE_SUSPECT


def key(
    number: int, namespace: bytes = FINGERPRINT, group: int = 0, scope: bytes = b""
) -> BlockKey:
    return BlockKey(namespace, group, scope, hash_of(number))


def keys(*numbers: int) -> set[BlockKey]:
    return {key(number) for number in numbers}


def chain_of(*numbers: int) -> list[bytes]:
    return [hash_of(number) for number in numbers]


def apply(index: BlockIndex, *messages: WatchEventsResponse) -> None:
    for message in messages:
        index.apply(message)


def source_said(node: str, state: SourceState.ValueType) -> WatchEventsResponse:
    return WatchEventsResponse(node_id=node, state=State(source=state))


any_tier = st.sampled_from(["gpu0", "cpu0"])


any_numbers = st.lists(st.integers(0, 20), min_size=1, max_size=6, unique=True)


any_event = st.one_of(
    st.tuples(st.just("stored"), any_tier, any_numbers),
    st.tuples(st.just("removed"), any_tier, any_numbers),
    st.tuples(st.just("cleared"), any_tier, st.just([0])),
)


any_step = st.tuples(
    st.integers(0, 2),
    st.sampled_from(["batch", "batch", "batch", "snapshot"]),
    st.lists(any_event, min_size=1, max_size=4),
)


def happen(
    script: Script, kind: str, events: list[Any], model: dict[tuple[str, str], set[int]]
) -> list[WatchEventsResponse]:
    """Let something happen to the model of a node, and return what the node says of it."""
    node = script.node_id
    if kind == "snapshot":
        parts = {tier: set(numbers) for _, tier, numbers in events}
        model.update({(node, tier): parts.get(tier, set()) for tier in ("gpu0", "cpu0")})
        return script.start(*(stored(*numbers, tier=tier) for tier, numbers in parts.items()))
    events = sorted(events, key=lambda event: ["cleared", "removed", "stored"].index(event[0]))
    for what, tier, numbers in events:
        held = model.setdefault((node, tier), set())
        if what == "stored":
            held.update(numbers)
        else:
            held.difference_update(numbers if what == "removed" else set(held))
    return [script.batch(*(part(*event) for event in events))]


def part(what: str, tier: str, numbers: list[int]) -> Any:
    if what == "cleared":
        return cleared(tier)
    return (stored if what == "stored" else removed)(*numbers, tier=tier)


def walk(chain: list[int], numbers: set[int]) -> int:
    return next((i for i, number in enumerate(chain) if number not in numbers), len(chain))
