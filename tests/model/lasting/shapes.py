"""Nodes with lasting tiers, small enough that everything happens."""

from typing import Any

from .blocks import LARGEST
from .world import GRAIN


def cpu(blocks: int, **fields: Any) -> dict[str, Any]:
    """A host tier."""
    size = {"capacity": blocks * LARGEST, "slot_bytes": LARGEST}
    return {"name": "cpu0", "medium": "cpu", **size, **fields}


def fs(grains: int, name: str = "fs0", **fields: Any) -> dict[str, Any]:
    """A tier of files."""
    return _lasting("fs", name, grains, io_timeout=0.4, **fields)


def obj(grains: int, name: str = "obj0", **fields: Any) -> dict[str, Any]:
    """A tier of objects."""
    return _lasting("obj", name, grains, io_timeout=0.8, **fields)


def _lasting(medium: str, name: str, grains: int, **fields: Any) -> dict[str, Any]:
    size = {"capacity": grains * GRAIN, "io_threads": 3, "scrub_rate": "4MiB"}
    return {"name": name, "medium": medium, **size, **fields}
