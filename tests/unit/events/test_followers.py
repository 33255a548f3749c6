"""Whatever happens, a follower's view becomes what the tiers hold."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvtier.server.events.source import TierInfo
from kvtier.v1.event_service_pb2 import EventView

from .fakes import CPU, GPU, READY, Block, FakeNode, block, space_of
from .reader import Reader, serve
from .virtual_time import patient, virtual_time

_TIERS = (TierInfo(0, "gpu0", GPU, READY), TierInfo(1, "cpu0", CPU, READY))
_BLOCKS = [
    block(number, namespace=1 + number % 2, group=number // 8 % 2, tokens=number // 4 % 3)
    for number in range(16)
]
_some = st.lists(st.sampled_from(_BLOCKS), min_size=1, max_size=6)
_tier = st.integers(0, 1)
_step = st.one_of(
    st.tuples(st.just("store"), _tier, _some),
    st.tuples(st.just("remove"), _tier, _some),
    st.tuples(st.just("clear"), _tier, st.sampled_from([b"", space_of(1), space_of(2)])),
    st.tuples(st.just("turns"), st.integers(1, 6)),
    st.tuples(st.just("pass"), st.sampled_from([0.001, 0.5, 3.0])),
    st.tuples(st.sampled_from(["stall", "read", "leave", "come"]), st.integers(0, 2)),
)


def _change(node: FakeNode, step: tuple[Any, ...]) -> None:
    match step:
        case "store", tier, blocks:
            node.store(*blocks, tier=tier)
        case "remove", tier, blocks:
            node.remove(*blocks, tier=tier)
        case "clear", tier, namespace:
            node.clear(namespace, tier=tier)


async def _follow(readers: list[Reader], step: tuple[Any, ...]) -> None:
    match step:
        case "turns", count:
            for _ in range(count):
                await asyncio.sleep(0)
        case "pass", seconds:
            await asyncio.sleep(seconds)
        case "stall", who:
            readers[who].stall()
        case "read", who:
            readers[who].read_on()
        case "leave", who:
            await readers[who].leave()
        case "come", who if readers[who].ended:
            readers[who].start()


def _wanted(node: FakeNode, *, namespace: bytes = b"", tier: str = "") -> set[tuple[str, Block]]:
    return {
        (name, held)
        for name, held in node.contents()
        if name == (tier or name) and held.namespace == (namespace or held.namespace)
    }


def _without_tokens(view: set[tuple[str, Block]]) -> set[tuple[str, Block]]:
    return {(tier, held._replace(tokens=())) for tier, held in view}


@settings(patient, max_examples=200)
@given(
    steps=st.lists(_step, max_size=60),
    max_batches=st.sampled_from([1, 3, 8, 1000]),
    message_bytes=st.sampled_from([1, 200, 1 << 18]),
)
@virtual_time
async def test_the_view_becomes_what_the_tiers_hold(
    steps: list[tuple[Any, ...]], max_batches: int, message_bytes: int
) -> None:
    """Followers that are slow, leave and come back end with the tiers' contents, without a gap."""
    node = FakeNode(*_TIERS, max_batches=max_batches, slice_slots=3)
    service = serve(node, message_bytes=message_bytes)
    everything = Reader(service, view=EventView.EVENT_VIEW_FULL)
    one_space = Reader(service, namespaces=[space_of(1)], view=EventView.EVENT_VIEW_FULL)
    one_tier = Reader(service, media=[CPU])
    readers = [reader.start() for reader in (everything, one_space, one_tier)]

    for step in steps:
        _change(node, step)
        await _follow(readers, step)
    for reader in readers:
        reader.read_on()
        await asyncio.sleep(2)
        if reader.ended:
            reader.start()
    await asyncio.sleep(5)

    assert everything.fold.view == _wanted(node)
    assert one_space.fold.view == _wanted(node, namespace=space_of(1))
    assert one_tier.fold.view == _without_tokens(_wanted(node, tier="cpu0"))
    assert {reader.fold.through for reader in readers} == {node.log.head}
    for reader in readers:
        await reader.leave()
    assert node.followers == 0
