"""Which node is the best place for a request, by what each holds of its prefix."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kvtier.client.answers import BestCopies
from kvtier.client.arguments import bad_argument
from kvtier.client.index import BlockIndex
from kvtier.client.source import Quality
from kvtier.v1.block_pb2 import Medium, Position
from kvtier.wire.errors import quote

Weights = Mapping[Medium.ValueType, float]
"""What a block on each medium is worth."""


class Chain(NamedTuple):
    """The blocks of one prefix in one KV-cache group.

    Attributes:
        group: The KV-cache group.
        scope: The scope.
        hashes: The blocks, parent first.
    """

    group: int
    scope: bytes
    hashes: Sequence[bytes]


class ChainHeld(NamedTuple):
    """What a node holds of one chain.

    Attributes:
        reach: Blocks from the first on that it holds, over the union of its tiers.
        tiers: Blocks from the first on that each tier holds by itself, by the tier's name.
        media: Of the blocks of `reach`, how many have their best copy on each medium that has a
            weight, the highest weight first. What no weight speaks for is in none.
    """

    reach: int
    tiers: dict[str, int]
    media: dict[Medium.ValueType, int]


class Placement(NamedTuple):
    """How good a place a node is.

    Attributes:
        node: Its id.
        score: Over all chains, the sum of the weight of the best copy of each block of `reach`; 0
            unless `quality` is EXACT.
        chains: What it holds of each chain, in the order asked. Nothing is made of several chains
            but the sums: whether one that is short makes the others useless, the caller knows.
        quality: How much the view of the node is worth. What is told of a STALE one is how it was
            at the position.
        position: The position that the view is based on; None before it was complete.
    """

    node: str
    score: float
    chains: tuple[ChainHeld, ...]
    quality: Quality
    position: Position | None

    @property
    def reach(self) -> int:
        """The sum of the reach over all chains, in blocks."""
        return sum(chain.reach for chain in self.chains)


def rank_nodes(
    index: BlockIndex,
    namespace: bytes,
    chains: Sequence[Chain],
    weights: Weights,
    *,
    nodes: Iterable[str] | None = None,
    exact_only: bool = False,
) -> list[Placement]:
    """Return the nodes, the best place for a request first.

    They are sorted by score, then by reach, then by id; those whose view is not EXACT come last. A
    block counts once, by the highest weight of the tiers of its node that hold it. Nothing counts
    a tier that is SILENT, whose medium is unknown or has no weight. A tier that is RECOVERING
    counts with what is known of it.

    It walks the table once for each chain, whatever the number of nodes.

    Args:
        index: Who holds what.
        namespace: The fingerprint.
        chains: The chains, such as one for each KV-cache group.
        weights: What a block on each medium is worth, at least 0.
        nodes: Whom to consider, such as all in reach; None means every node of the index. One
            that the index never heard of is UNKNOWN.
        exact_only: Leave out whoever is not EXACT.

    Raises:
        InvalidArgumentError: When a weight is no number of at least 0, or is of no medium.
    """
    media = sorted(_checked(weights), key=lambda medium: -weights[medium])
    considered = list(dict.fromkeys(index.nodes() if nodes is None else nodes))
    if exact_only:
        considered = [node for node in considered if index.quality(node) is Quality.EXACT]
    held = [
        _by_node(index.best_copies(namespace, c.group, c.scope, c.hashes, media, nodes=considered))
        for c in chains
    ]
    nothing = ChainHeld(0, {}, {})
    ranked = [
        _placement(index, node, tuple(each.get(node, nothing) for each in held), weights)
        for node in considered
    ]
    return sorted(ranked, key=_order)


def _checked(weights: Weights) -> Weights:
    for medium, weight in weights.items():
        if medium == Medium.MEDIUM_UNSPECIFIED:
            raise bad_argument("weights must not have one for MEDIUM_UNSPECIFIED: leave it out")
        number = isinstance(weight, int | float) and math.isfinite(weight)
        if not number or weight < 0:
            name = Medium.Name(medium) if medium in Medium.values() else f"medium {medium}"
            raise bad_argument(
                f"the weight of {name} must be a number of at least 0; got {quote(weight)}"
            )
    return weights


def _by_node(found: BestCopies) -> dict[str, ChainHeld]:
    """Return what each node holds of a chain."""
    tiers: dict[str, dict[str, int]] = {node: {} for node in found.media}
    for (node, tier), length in found.prefixes.tiers.items():
        tiers[node][tier] = length
    return {
        node: ChainHeld(found.prefixes.nodes[node], tiers[node], media)
        for node, media in found.media.items()
    }


def _placement(
    index: BlockIndex, node: str, chains: tuple[ChainHeld, ...], weights: Weights
) -> Placement:
    quality = index.quality(node)
    exact = quality is Quality.EXACT
    score = math.fsum(
        weights[medium] * blocks for chain in chains for medium, blocks in chain.media.items()
    )
    return Placement(node, score if exact else 0.0, chains, quality, index.position(node))


def _order(placement: Placement) -> tuple[bool, float, int, str]:
    last = placement.quality is not Quality.EXACT
    return last, -placement.score, -placement.reach, placement.node
