"""The values of the chart: each with its default, and the comment above it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

CHART = Path(__file__).resolve().parents[3] / "deploy" / "helm" / "kvtier"
# What a value holds is told elsewhere, or by Kubernetes.
_WHOLE = {"config", "resources", "updateStrategy"}


class Value(NamedTuple):
    """A value.

    Attributes:
        path: Its name, with dots.
        default: What it is by default.
        description: The comment above it, in one line; empty when there is none.
        group: Whether it holds values that are told one by one.
    """

    path: str
    default: Any
    description: str
    group: bool


def values() -> list[Value]:
    """Return the values and their groups, in the order of values.yaml."""
    text = (CHART / "values.yaml").read_text()
    node = yaml.compose(text)
    assert isinstance(node, yaml.MappingNode)
    return list(_walk(node, yaml.safe_load(text), "", text.splitlines()))


def _walk(
    node: yaml.MappingNode, defaults: dict[str, Any], prefix: str, lines: list[str]
) -> Iterator[Value]:
    for key, value in node.value:
        default = defaults[key.value]
        group = isinstance(default, dict) and bool(default) and key.value not in _WHOLE
        path = f"{prefix}{key.value}"
        yield Value(path, default, _comment(lines, key.start_mark.line), group)
        if group:
            yield from _walk(value, default, f"{path}.", lines)


def _comment(lines: list[str], line: int) -> str:
    """Return the comment that ends above a line."""
    words: list[str] = []
    while line and lines[line - 1].lstrip().startswith("# "):
        line -= 1
        words.insert(0, lines[line].strip().removeprefix("# "))
    return " ".join(words)
