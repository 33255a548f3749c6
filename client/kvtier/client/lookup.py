"""Merging what the primary answered with what the secondaries' mirrors hold."""

from collections.abc import Sequence
from dataclasses import dataclass

from kvtier.v1.result_pb2 import ChainLookup, LookupResult


@dataclass(frozen=True, slots=True)
class ProxyLookup:
    """Where the blocks of one chain are.

    Sources are numbered: 0 is the primary, 1 the first secondary, and so on.

    Attributes:
        results: One a block. HIT: a source has it. HIT_PENDING: the primary is being given it.
            RETRY: no hit is known, and a secondary is not known well enough to say MISS.
        sources: One a block: the first source that has it; None unless the result is HIT.
        prefix_lengths: One a source: how many blocks from the first on it holds itself, over its
            tiers; None for a secondary whose mirror is not in sync. Prefixes are not stitched
            together over sources.
    """

    results: tuple[LookupResult.ValueType, ...]
    sources: tuple[int | None, ...]
    prefix_lengths: tuple[int | None, ...]

    @property
    def longest(self) -> tuple[int, int]:
        """The source with the longest prefix, the earlier of equals, and that length in blocks."""
        lengths = [length or 0 for length in self.prefix_lengths]
        length = max(lengths)
        return lengths.index(length), length


@dataclass(frozen=True, slots=True)
class MirrorAnswer:
    """What a secondary's mirror says of one chain.

    Attributes:
        in_sync: The mirror is worth believing; what follows is empty when it is not.
        held: One a block: whether the node has it. Empty for a node that is out of reach.
        prefix_length: How many blocks from the first on it holds.
    """

    in_sync: bool
    held: Sequence[bool] = ()
    prefix_length: int = 0


def merge_lookup(primary: ChainLookup, mirrors: Sequence[MirrorAnswer]) -> ProxyLookup:
    """Merge the answers for one chain: the first hit wins, the primary's ahead of the others.

    Args:
        primary: The primary's answer, with a result for every block.
        mirrors: The secondaries' answers, in configured order.
    """
    results = list(primary.results)
    sources: list[int | None] = [
        0 if result == LookupResult.LOOKUP_RESULT_HIT else None for result in results
    ]
    unknown = any(not mirror.in_sync for mirror in mirrors)
    for block, result in enumerate(results):
        if result in {LookupResult.LOOKUP_RESULT_HIT, LookupResult.LOOKUP_RESULT_HIT_PENDING}:
            continue
        for source, mirror in enumerate(mirrors, start=1):
            if mirror.held and mirror.held[block]:
                results[block] = LookupResult.LOOKUP_RESULT_HIT
                sources[block] = source
                break
        else:
            if unknown:
                results[block] = LookupResult.LOOKUP_RESULT_RETRY
    lengths = (m.prefix_length if m.in_sync else None for m in mirrors)
    return ProxyLookup(tuple(results), tuple(sources), (primary.union_prefix_length, *lengths))
