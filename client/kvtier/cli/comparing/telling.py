"""What two nodes hold, as records."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kvtier.cli.comparing.block_line import BlockLine
from kvtier.cli.comparing.parts import Difference

_Place = tuple[str, str]


class Counts:
    """Blocks by namespace and tier: of the first node alone, of the second alone, of both."""

    def __init__(self) -> None:
        self._counts: tuple[Counter[_Place], ...] = (Counter(), Counter(), Counter())

    def add(self, difference: Difference) -> None:
        """Count a part."""
        for counts, lines in zip(self._counts, difference, strict=True):
            for line in lines:
                block = BlockLine.read(line)
                counts[block.namespace, block.tier] += 1

    @property
    def alone(self) -> tuple[int, int]:
        """Blocks of the first node alone, and of the second alone."""
        return self._counts[0].total(), self._counts[1].total()

    def records(self, names: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return a record of each namespace and tier.

        Args:
            names: Names of namespaces by fingerprint, in hexadecimal.
        """
        first, second, both = self._counts
        places = sorted({*first, *second, *both}, key=lambda p: (names.get(p[0], ""), *p))
        return [
            {
                "namespace": place[0],
                "namespace_name": names.get(place[0], ""),
                "tier": place[1],
                "only_a": first[place],
                "only_b": second[place],
                "both": both[place],
            }
            for place in places
        ]


def block_records(
    difference: Difference, nodes: Sequence[str], names: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield a record of each block that only one node has, in order.

    Args:
        difference: One part.
        nodes: What the user calls the two.
        names: Names of namespaces by fingerprint, in hexadecimal.
    """
    for node, lines in zip(nodes, difference[:2], strict=True):
        yield from (_record(node, block, names) for block in _sorted(lines))


def _sorted(lines: Iterable[str]) -> list[BlockLine]:
    return [BlockLine.read(line) for line in sorted(lines)]


def _record(node: str, block: BlockLine, names: Mapping[str, str]) -> dict[str, Any]:
    named = {"only_on": node, "namespace_name": names.get(block.namespace, "")}
    return {**named, **block._asdict(), "group": int(block.group)}
