"""Merging what is known of a chain of each source of a proxy."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from kvtier.client.source import Quality
from kvtier.v1.block_pb2 import Position
from kvtier.v1.result_pb2 import ChainLookup, LookupResult

_HIT = LookupResult.LOOKUP_RESULT_HIT
_PENDING = LookupResult.LOOKUP_RESULT_HIT_PENDING
_MISS = LookupResult.LOOKUP_RESULT_MISS
_RETRY = LookupResult.LOOKUP_RESULT_RETRY


class Basis(NamedTuple):
    """What an answer about a source is based on.

    Attributes:
        quality: How much is known; EXACT of one that was asked.
        position: The position of its node's log; None of one that was asked, of one that nothing
            is known of, and of a proxy over several nodes.
    """

    quality: Quality
    position: Position | None


@dataclass(frozen=True, slots=True)
class ProxyLookup:
    """Where the blocks of one chain are.

    Sources are numbered: 0 is the primary, 1 the first secondary, and so on.

    Attributes:
        results: One a block. HIT: a source has it. HIT_PENDING: the primary is being given it.
            RETRY: no hit is known, and not enough is known of a source to say MISS.
        sources: One a block: the first source that has it; None unless the result is HIT.
        prefix_lengths: One a source: how many blocks from the first on it holds itself, over its
            tiers; None for one of which not enough is known. Prefixes are not stitched together
            over nodes.
        endpoints: One a source: its address.
        bases: One a source: what is said of it is based on this.
    """

    results: tuple[LookupResult.ValueType, ...]
    sources: tuple[int | None, ...]
    prefix_lengths: tuple[int | None, ...]
    endpoints: tuple[str, ...]
    bases: tuple[Basis, ...]

    @property
    def longest(self) -> tuple[int, int]:
        """The source with the longest prefix, the earlier of equals, and that length in blocks."""
        lengths = [length or 0 for length in self.prefix_lengths]
        length = max(lengths)
        return lengths.index(length), length


_ASKED = Basis(Quality.EXACT, None)


@dataclass(frozen=True, slots=True)
class SourceAnswer:
    """What is known of one chain at one source.

    Attributes:
        in_sync: It is worth believing; what follows is empty when it is not.
        held: One a block: whether the source has it. Empty for one that is out of reach.
        prefix_length: How many blocks from the first on it holds.
        partial: It may have more blocks than it has told.
        pending: One a block: whether it is being given it. Empty where that is not known.
        endpoint: Its address.
        basis: What that is based on.
    """

    in_sync: bool
    held: Sequence[bool] = ()
    prefix_length: int = 0
    partial: bool = False
    pending: Sequence[bool] = ()
    endpoint: str = ""
    basis: Basis = _ASKED


def answer_of(told: ChainLookup, endpoint: str = "") -> SourceAnswer:
    """Return what a node answered for a chain, with a result for every block."""
    return SourceAnswer(
        in_sync=True,
        held=[result == _HIT for result in told.results],
        prefix_length=told.union_prefix_length,
        partial=_RETRY in told.results,
        pending=[result == _PENDING for result in told.results],
        endpoint=endpoint,
    )


def merge_lookup(blocks: int, answers: Sequence[SourceAnswer]) -> ProxyLookup:
    """Merge the answers for one chain: the first hit wins.

    Args:
        blocks: The length of the chain.
        answers: The sources' answers, the primary's first.
    """
    unknown = any(each.partial or not each.in_sync for each in answers)
    results = [_RETRY if unknown else _MISS] * blocks
    sources: list[int | None] = [None] * blocks
    for number, answer in reversed(list(enumerate(answers))):
        for block, (held, pending) in enumerate(
            zip_longest(answer.held, answer.pending, fillvalue=False)
        ):
            if held:
                results[block], sources[block] = _HIT, number
            elif pending:
                results[block], sources[block] = _PENDING, None
    return ProxyLookup(
        tuple(results),
        tuple(sources),
        tuple(each.prefix_length if each.in_sync else None for each in answers),
        tuple(each.endpoint for each in answers),
        tuple(each.basis for each in answers),
    )
