"""Comparing what an index knows of nodes with what they list."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from kvtier.client import BlockIndex, BlockKey, Quality
from tests.contract.folding import Facts, Key

from .nodes import SILENT_TIER, PathNode

Contents = Mapping[str, Mapping[Key, Facts]]


def in_step(index: BlockIndex, node: PathNode) -> bool:
    """Return whether an index knows all that a node ever told its log, and stands by it."""
    position = index.position(node.node_id)
    return (
        index.quality(node.node_id) is Quality.EXACT
        and position is not None
        and (position.epoch, position.sequence) == (node.life.epoch, node.life.head)
    )


def where(index: BlockIndex, node: PathNode) -> str:
    """Say how far an index is from what a node told."""
    position = index.position(node.node_id)
    here = position and (position.epoch, position.sequence)
    quality = index.quality(node.node_id).value
    there = (node.life.epoch, node.life.head)
    return f"{node.node_id} is at {there}, and its view, {quality}, at {here}"


def check_view(
    index: BlockIndex, nodes: Sequence[PathNode], contents: Contents, *, silent: bool
) -> None:
    """Fail unless an index says of nodes what they list.

    Args:
        index: The index.
        nodes: The nodes that it knows.
        contents: What each lists.
        silent: Whether it was told of the tier that tells no events.
    """
    assert index.bad_events == 0
    for node in nodes:
        _check_node(index, node.node_id, contents[node.node_id])
        if silent:
            assert index.quality(node.node_id, SILENT_TIER) is Quality.UNKNOWN
    _check_places(index, {node.node_id: contents[node.node_id] for node in nodes})


def _check_node(index: BlockIndex, node_id: str, listed: Mapping[Key, Facts]) -> None:
    tiers = index.tiers(node_id)
    known = {Key(tier, *block) for tier in tiers for block in index.blocks(node_id, tier)}
    assert known == set(listed), f"the view of {node_id} is what it lists"
    counts = Counter(key.tier for key in known)
    assert {tier: index.count(node_id, tier) for tier in tiers} == {t: counts[t] for t in tiers}


def _check_places(index: BlockIndex, contents: Contents) -> None:
    places: defaultdict[BlockKey, set[tuple[str, str]]] = defaultdict(set)
    for node_id, listed in contents.items():
        for key in listed:
            places[BlockKey(*key[1:])].add((node_id, key.tier))
    for block, where_it_is in places.items():
        found = {each for each in index.locate(block) if each[0] in contents}
        assert found == where_it_is
