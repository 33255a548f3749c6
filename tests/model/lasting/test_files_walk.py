"""Random calls on nodes with tiers of files, whose disks fail, stall, end and are meddled with.

KVTIER_TEST_EFFORT=20 takes twenty times as many walks; KVTIER_TEST_SEED starts with that seed.
"""

import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.model.effort import examples

from .files import Files
from .shapes import cpu, fs
from .walk import walk
from .world import World

_SEED = int(os.environ.get("KVTIER_TEST_SEED", "1"))
_STEPS = 30

SHAPES: dict[str, list[dict[str, Any]]] = {
    "alone": [fs(14, scrub_rate=0)],
    "through": [cpu(5, write_through=["fs0"]), fs(16)],
    "down": [cpu(5, on_evict="fs0"), fs(14)],
    "two below": [
        cpu(4, on_evict="fs0", write_through=["fs1"]),
        fs(12, on_evict="fs1"),
        fs(20, "fs1", policy="arc"),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(_SEED, _SEED + examples(2)))
@pytest.mark.parametrize("shape", SHAPES)
async def test_files_hold_what_was_answered_whatever_happens(
    shape: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stored blocks outlive every end of the process byte for byte; deleted ones stay away."""
    rng = random.Random(f"{shape} {seed}")
    ground = Files(tmp_path, rng, rng.choice(["none", "close", "always"]))

    await walk(World(SHAPES[shape], ground, rng, monkeypatch), _STEPS)
