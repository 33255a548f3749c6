"""Random calls on nodes with tiers of objects, whose server does its worst.

KVTIER_TEST_EFFORT=20 takes twenty times as many walks; KVTIER_TEST_SEED starts with that seed.
"""

import os
import random
from typing import Any

import pytest

from tests.model.effort import examples

from .objects import Objects
from .shapes import cpu, obj
from .walk import walk
from .world import World

_SEED = int(os.environ.get("KVTIER_TEST_SEED", "1"))
_STEPS = 15

SHAPES: dict[str, list[dict[str, Any]]] = {
    "alone": [obj(14)],
    "through": [cpu(5, write_through=["obj0"]), obj(16, scrub_rate=0)],
    "down": [cpu(5, on_evict="obj0"), obj(14)],
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(_SEED, _SEED + examples(1)))
@pytest.mark.parametrize("shape", SHAPES)
async def test_objects_hold_what_was_answered_whatever_happens(
    shape: str, seed: int, endpoint: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stored blocks outlive every end of the process byte for byte; deleted ones stay away."""
    rng = random.Random(f"{shape} {seed}")
    ground = Objects(endpoint, bucket, ["obj0"], rng)

    try:
        await walk(World(SHAPES[shape], ground, rng, monkeypatch), _STEPS)
    finally:
        ground.close()
