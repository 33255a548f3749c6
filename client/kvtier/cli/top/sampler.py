"""Asking nodes again and again."""

from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

from kvtier.cli.connect import Answer, ask_all
from kvtier.cli.options import Settings
from kvtier.cli.output.messages import to_record
from kvtier.cli.reaching import reached
from kvtier.cli.top.rates import Sample, with_rates
from kvtier.client import NodeClient

if TYPE_CHECKING:
    from kvtier.cli.exit import CommandError


class Sampler:
    """Asks all endpoints, and remembers what they told last.

    Args:
        settings: The endpoints, and how to connect.
        clock: Tells seconds, and only goes on.

    Attributes:
        errors: Why endpoints did not answer last.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = monotonic) -> None:
        self.errors: list[CommandError] = []
        self._settings = settings
        self._clock = clock
        self._last: dict[str, Sample] = {}

    async def take(self) -> list[dict[str, Any]]:
        """Return a record of each endpoint; one that does not answer has its state alone."""
        answers = await ask_all(self._settings, self._ask)
        self.errors = [answer.error for answer in answers if answer.error is not None]
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return [{"time": now, **self._record(answer)} for answer in answers]

    async def _ask(self, client: NodeClient) -> Sample:
        node, tiers = await client.get_node(), await client.list_tiers()
        return Sample(self._clock(), to_record(node), [to_record(tier) for tier in tiers])

    def _record(self, answer: Answer[Sample]) -> dict[str, Any]:
        endpoint, now = answer.endpoint, answer.value
        if now is None:
            return {**reached(answer, None), "batches_per_s": None}
        before, self._last[endpoint] = self._last.get(endpoint), now
        return reached(answer, with_rates(before, now))
