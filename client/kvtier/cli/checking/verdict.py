"""What a check concludes of a node, as records of its tiers and as a command's error."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from kvtier.cli.checking.comparison import Comparison, TierComparison
from kvtier.cli.checking.difference import Facts
from kvtier.cli.checking.ledger import Contradiction, Ledger
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.output import Record
from kvtier.cli.position import position_text
from kvtier.cli.tiers import recovering_text
from kvtier.client import BlockKey

EQUAL, DIFFERS, BUSY, SILENT = "equal", "differs", "busy", "silent"
RECOVERING = "recovering"


class Verdict:
    """What one comparison of a node's events with its listing comes to.

    Args:
        endpoint: The node's address.
        comparison: What the comparison found.
        ledger: The events that it was about.
    """

    def __init__(self, endpoint: str, comparison: Comparison, ledger: Ledger) -> None:
        self._endpoint = endpoint
        self._comparison = comparison
        self._ledger = ledger

    def records(self, examples: int) -> list[Record]:
        """Return a record for each tier, with at most so many examples of differing blocks."""
        return [
            *(self._record(name, tier, examples) for name, tier in self._comparison.tiers.items()),
            *(self._place(name, SILENT) for name in self._comparison.silent),
        ]

    @property
    def differs(self) -> bool:
        """Something differs for certain."""
        return any(self._word(*tier) == DIFFERS for tier in self._comparison.tiers.items())

    @property
    def only_recovering(self) -> bool:
        """All that is in the way is that tiers do not know yet what they hold."""
        words = {self._word(*tier) for tier in self._comparison.tiers.items()}
        return RECOVERING in words and not words & {DIFFERS, BUSY}

    def error(self) -> CommandError | None:
        """Return why the node cannot be said to be in order; None when it can."""
        words = {name: self._word(name, tier) for name, tier in self._comparison.tiers.items()}
        differing = [name for name, word in words.items() if word == DIFFERS]
        busy = [name for name, word in words.items() if word == BUSY]
        if differing:
            return CommandError(
                self._endpoint,
                self._what_differs(differing),
                "start its followers anew, and keep this output and the node's log for a report",
                code=ExitCode.DIFFERENCE,
            )
        if busy:
            what = f"could not tell of {_tiers(busy)}: {self._why_busy()}"
            return CommandError(self._endpoint, what, "check again, or one --tier at a time")
        if self.only_recovering:
            recovering = recovering_text(self._comparison.recovering)
            what = f"the listing is not complete yet: {recovering}"
            return CommandError(self._endpoint, what, "check again when it is ready")
        if self._comparison.silent:
            what = f"could not tell of {_tiers(self._comparison.silent)}: no events are kept there"
            others = " ".join(f"--tier {name}" for name in words)
            return CommandError(self._endpoint, what, f"check only {others}" if others else "")
        return None

    def _word(self, name: str, tier: TierComparison) -> str:
        if tier.difference.found or self._contradictions(name) or self._ledger.miscounts:
            return DIFFERS
        if tier.difference.open or not self._comparison.whole:
            return BUSY
        return RECOVERING if name in self._comparison.recovering else EQUAL

    def _what_differs(self, tiers: Sequence[str]) -> str:
        if not self._comparison.differs and not self._ledger.contradictions:
            return "its events bring another number of blocks than synced tells"
        return f"events and listing differ in {_tiers(tiers)}"

    def _why_busy(self) -> str:
        rounds = self._comparison.rounds
        if not self._comparison.whole:
            return f"its event stream began anew in each of {rounds} rounds"
        changing = sum(len(tier.difference.open) for tier in self._comparison.tiers.values())
        return f"{changing} blocks came or went in each of {rounds} rounds"

    def _place(self, tier: str, verdict: str) -> dict[str, Any]:
        position = self._comparison.position
        text = position_text(position.epoch, position.sequence) if position is not None else None
        return {
            "endpoint": self._endpoint,
            "node_id": self._comparison.node_id,
            "tier": tier,
            "verdict": verdict,
            "events": None,
            "listing": None,
            "only_in_events": None,
            "only_in_listing": None,
            "unlike": None,
            "contradictions": None,
            "open": None,
            "miscounts": self._ledger.miscounts,
            "rounds": self._comparison.rounds,
            "position": text,
            "examples": [],
        }

    def _record(self, name: str, tier: TierComparison, examples: int) -> Record:
        difference = tier.difference
        counts = {
            "events": tier.told,
            "listing": tier.listed,
            "only_in_events": len(difference.only_in_events),
            "only_in_listing": len(difference.only_in_listing),
            "unlike": len(difference.unlike),
            "contradictions": len(self._contradictions(name)),
            "open": len(difference.open),
        }
        place = self._place(name, self._word(name, tier))
        return place | counts | {"examples": list(islice(self._examples(name, tier), examples))}

    def _examples(self, name: str, tier: TierComparison) -> Iterator[Record]:
        difference = tier.difference
        for block, facts in difference.only_in_listing.items():
            yield self._example("only in listing", block, by_listing=facts)
        for block, facts in difference.only_in_events.items():
            yield self._example("only in events", block, by_events=facts)
        for block, (told, listed) in difference.unlike.items():
            yield self._example("unlike", block, by_events=told, by_listing=listed)
        for each in self._contradictions(name):
            what = "stored again" if each.event == "stored" else "removed unknown"
            yield self._example(f"{what} at {each.sequence}", each.block)

    def _example(
        self,
        difference: str,
        block: BlockKey,
        *,
        by_events: Facts | None = None,
        by_listing: Facts | None = None,
    ) -> Record:
        return {
            "difference": difference,
            "namespace": block.namespace.hex(),
            "namespace_name": self._ledger.namespace_name(block.namespace),
            "group": block.group,
            "scope": block.scope.hex(),
            "block_hash": block.block_hash.hex(),
            "by_events": _facts(by_events),
            "by_listing": _facts(by_listing),
        }

    def _contradictions(self, tier: str) -> list[Contradiction]:
        return [each for each in self._ledger.contradictions if each.tier == tier]


def _facts(facts: Facts | None) -> Record | None:
    if facts is None:
        return None
    return facts._asdict() | {"parent_block_hash": facts.parent_block_hash.hex()}


def _tiers(names: Sequence[str]) -> str:
    return f"tier{'s' if len(names) > 1 else ''} {', '.join(names)}"
