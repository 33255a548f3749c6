"""What the index of a proxy says of a chain, source by source."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from kvtier.client.answers import TierOf
from kvtier.client.index import BlockIndex
from kvtier.client.proxy.following.members import Member, Members
from kvtier.client.proxy.lookup import Basis, SourceAnswer
from kvtier.client.proxy.promotions.verdicts import Verdicts
from kvtier.client.source import Quality, TierInfo
from kvtier.v1.block_pb2 import BlockSet, Locality, Medium
from kvtier.v1.event_service_pb2 import SourceState
from kvtier.wire.hashes import split_hashes

_DOWN = SourceState.SOURCE_STATE_DOWN
_WORTH = (Quality.UNKNOWN, Quality.STALE, Quality.EXACT)


ChainKey = tuple[bytes, int, bytes, Sequence[bytes]]
"""A namespace's fingerprint, a group, a scope, and hashes, parent first."""


def chain_key(namespace: bytes, chain: BlockSet, width: int) -> ChainKey:
    """Return what names the blocks of a chain whose hashes have so many bytes."""
    return namespace, chain.group, chain.scope, split_hashes(chain.block_hashes, width)


class TierFilter(NamedTuple):
    """Which tiers count; an empty field lets all pass.

    Attributes:
        media: The only media. A tier of which none is known does not pass.
        localities: The only localities, likewise.
    """

    media: Collection[Medium.ValueType] = ()
    localities: Collection[Locality.ValueType] = ()

    def passes(self, tier: TierInfo) -> bool:
        """Tell whether a tier counts."""
        return (not self.media or tier.medium in self.media) and (
            not self.localities or tier.locality in self.localities
        )


class MirroredChain:
    """One chain, looked up once for all sources.

    Args:
        members: The sources.
        verdicts: What nodes were found not to have, whatever the index says.
        wanted: Which tiers count.
        key: The namespace's fingerprint, the group, the scope, and the hashes, parent first.
    """

    def __init__(
        self,
        members: Members,
        verdicts: Verdicts,
        wanted: TierFilter,
        key: ChainKey,
    ) -> None:
        self._key = key
        self._verdicts = verdicts
        self._members = members
        self._wanted = wanted
        self._located = members.index.locate_many(*self._key)
        self._distinct = set(self._located)

    def __len__(self) -> int:
        return len(self._located)

    def answer(self, member: Member) -> SourceAnswer:
        """Return what is known of a source.

        Asking again for what a dead node held would hold the asker up as long as it is dead: it
        counts as having nothing.
        """
        nodes, index = member.node_ids, self._members.index
        trusted = [node for node in nodes if self._members.trusts(node)]
        rest = [node for node in nodes if node not in trusted]
        in_sync = all(member.state(node) == _DOWN for node in rest or ([] if nodes else [""]))
        basis = _basis(index, nodes)
        if not trusted:
            return SourceAnswer(in_sync, endpoint=member.endpoint, basis=basis)
        held = [self._held(node) for node in trusted]
        return SourceAnswer(
            in_sync,
            held=held[0] if len(held) == 1 else list(map(any, zip(*held, strict=True))),
            prefix_length=max(map(_prefix, held)),
            partial=any(map(self._recovers, trusted)),
            endpoint=member.endpoint,
            basis=basis,
        )

    def _held(self, node: str) -> list[bool]:
        has = {
            holders: any(each.node == node and self._counts(each) for each in holders)
            for holders in self._distinct
        }
        held = map(has.__getitem__, self._located)
        denied = self._verdicts.denied(node, *self._key)
        return [there and not no for there, no in zip(held, denied, strict=True)]

    def _recovers(self, node: str) -> bool:
        recovering = self._members.index.recovering(node)
        return any(self._counts(TierOf(node, tier)) for tier in recovering)

    def _counts(self, tier: TierOf) -> bool:
        return self._wanted.passes(self._members.index.tier_info(*tier))


def _prefix(held: list[bool]) -> int:
    return held.index(False) if False in held else len(held)


def _basis(index: BlockIndex, nodes: Sequence[str]) -> Basis:
    qualities = [index.quality(node) for node in nodes] or [Quality.UNKNOWN]
    position = index.position(nodes[0]) if len(nodes) == 1 else None
    return Basis(min(qualities, key=_WORTH.index), position)
