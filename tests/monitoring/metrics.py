"""Which metrics there are, and which an expression of Prometheus asks for."""

import re
from pathlib import Path

from prometheus_client import REGISTRY

ROOT = Path(__file__).resolve().parents[2]
_PAGE = ROOT / "docs" / "metrics.md"
_PROMETHEUS = {"up"}  # what Prometheus itself says of each target
_WORDS = {"and", "or", "unless", "offset", "bool"}
_STRING = re.compile(r'"[^"]*"')
_SELECTION = re.compile(r"\{[^}]*\}|\[[^\]]*\]")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
_NAME = re.compile(r"(?<![\w:])[a-zA-Z_:][\w:]*(?![\w:]|\s*\()")


def exported() -> set[str]:
    """Return the names that a node and a proxy export, of series where they are of the process."""
    ours = set(re.findall(r"\b(?:kvtier|grpc)_[a-z0-9_]+", _PAGE.read_text()))
    of_process = {sample.name for metric in REGISTRY.collect() for sample in metric.samples}
    return ours | of_process | _PROMETHEUS


def unknown(expression: str, known: set[str]) -> set[str]:
    """Return the metrics of an expression that are not known, histograms by their own names."""
    return {
        name
        for name in asked_for(expression)
        if name not in known and re.sub(r"_(bucket|sum|count)$", "", name) not in known
    }


def asked_for(expression: str) -> set[str]:
    """Return the names of the metrics in an expression."""
    bare = _SELECTION.sub("", _STRING.sub("", expression))
    return set(_NAME.findall(_GROUPING.sub("", bare))) - _WORDS
