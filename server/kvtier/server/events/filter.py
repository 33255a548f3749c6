"""What a follower asked to see."""

from dataclasses import dataclass

from kvtier.server.events.encode import encode_batch
from kvtier.server.events.log import Entry, Span


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events a follower sees, and how much of each. An empty set lets everything pass.

    Attributes:
        tiers: Indexes of tiers.
        media: `kvtier.v1.Medium` numbers.
        namespaces: Fingerprints.
        full: Whether to send token ids.
    """

    tiers: frozenset[int] = frozenset()
    media: frozenset[int] = frozenset()
    namespaces: frozenset[bytes] = frozenset()
    full: bool = False

    @property
    def selective(self) -> bool:
        """Whether there is anything that does not pass."""
        return bool(self.tiers or self.media or self.namespaces)

    def passes_tier(self, tier: int, medium: int) -> bool:
        """Return whether anything of a tier passes."""
        return (not self.tiers or tier in self.tiers) and (not self.media or medium in self.media)

    def passes_namespace(self, fingerprint: bytes) -> bool:
        """Return whether a namespace passes; none at all stands for all, and passes."""
        return not self.namespaces or not fingerprint or fingerprint in self.namespaces

    def select(self, entry: Entry) -> bytes:
        """Return what passes of a batch as one entry of EventBatches; nothing if nothing does."""
        whole = entry.full if self.full else entry.basic
        passing = self._passing_parts(entry, whole)
        if len(passing) == len(entry.spans):
            return whole
        return encode_batch(entry.sequence, passing) if passing else b""

    def change(self, entry: Entry) -> int:
        """Return how many more blocks pass since a batch; negative for fewer."""
        return sum(span[5] for span in entry.spans if self._passes(span))

    def _passing_parts(self, entry: Entry, whole: bytes) -> list[bytes]:
        passing = []
        end = len(whole)
        for span in reversed(entry.spans):
            start = end - (span[4] if self.full else span[3])
            if self._passes(span):
                passing.append(whole[start:end])
            end = start
        passing.reverse()
        return passing

    def _passes(self, span: Span) -> bool:
        return self.passes_tier(span[0], span[1]) and self.passes_namespace(span[2])
