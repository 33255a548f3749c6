"""What a follower asked to see, as the test understands it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvtier.v1.event_service_pb2 import (
    BlockRemoved,
    BlockStored,
    EventBatch,
    EventView,
    TierCleared,
)
from tests.contract.folding import Facts, Key


@dataclass(frozen=True)
class Wanted:
    """A filter and view.

    Attributes:
        tier: The only tier; empty means all.
        namespace: The only namespace's fingerprint; empty means all.
        full: With token ids.
    """

    tier: str = ""
    namespace: bytes = b""
    full: bool = False

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a watch."""
        return {
            "tiers": [self.tier] if self.tier else [],
            "namespaces": [self.namespace] if self.namespace else [],
            "view": EventView.EVENT_VIEW_FULL if self.full else EventView.EVENT_VIEW_BASIC,
        }

    def part_of(self, contents: Mapping[Key, Facts]) -> dict[Key, Facts]:
        """Return those blocks that pass."""
        return {
            key: facts for key, facts in contents.items() if self._passes(key.tier, key.namespace)
        }

    def select(self, batch: EventBatch) -> EventBatch | None:
        """Return what passes of a batch; None when nothing does."""
        if not (self.tier or self.namespace):
            return batch
        chosen = EventBatch(
            sequence=batch.sequence,
            cleared=filter(self._lets, batch.cleared),
            removed=filter(self._lets, batch.removed),
            stored=filter(self._lets, batch.stored),
        )
        return chosen if chosen.cleared or chosen.removed or chosen.stored else None

    def _lets(self, event: TierCleared | BlockRemoved | BlockStored) -> bool:
        return self._passes(event.tier, event.namespace)

    def _passes(self, tier: str, namespace: bytes) -> bool:
        # A clear of every namespace names none, and concerns each.
        return self.tier in {"", tier} and (not namespace or self.namespace in {b"", namespace})
