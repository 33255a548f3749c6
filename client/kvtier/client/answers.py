"""What an index answers."""

from collections.abc import Mapping
from typing import NamedTuple

from kvtier.client.source import Build, Holder
from kvtier.v1.block_pb2 import Medium


class BlockKey(NamedTuple):
    """What names a block: the namespace's fingerprint, the group, the scope and the hash."""

    namespace: bytes
    group: int
    scope: bytes
    block_hash: bytes


class TierOf(NamedTuple):
    """A tier of a node, by their names."""

    node: str
    tier: str


class PrefixLengths(NamedTuple):
    """How long a prefix of a chain is held, in blocks, up to the first hole.

    Attributes:
        tiers: By node and tier.
        nodes: By node, over the union of its tiers. Nothing is stitched together over nodes.
    """

    tiers: dict[TierOf, int]
    nodes: dict[str, int]


class BestCopies(NamedTuple):
    """How long a prefix of a chain is held, and where the best copies of its blocks are.

    Attributes:
        prefixes: How long it is.
        media: By node: of the blocks of its prefix, over the union of its tiers, how many have
            their best copy on each medium. A block that is on none of the media is left out.
    """

    prefixes: PrefixLengths
    media: dict[str, dict[Medium.ValueType, int]]


def prefix_lengths(
    views: Mapping[Build, str], tiers: Mapping[Holder, int], builds: Mapping[Build, int]
) -> PrefixLengths:
    """Return the lengths by name, 0 for whoever was asked about and has none.

    Args:
        views: Who was asked about, with their names.
        tiers: How much each tier holds.
        builds: How much each node holds.
    """
    lengths = PrefixLengths(
        {TierOf(node, tier): 0 for view, node in views.items() for tier in view.holders},
        dict.fromkeys(views.values(), 0),
    )
    lengths.tiers.update({TierOf(h.build.node, h.tier): n for h, n in tiers.items()})
    lengths.nodes.update({views[build]: n for build, n in builds.items()})
    return lengths
