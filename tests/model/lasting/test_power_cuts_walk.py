"""Random calls on nodes with a tier of files whose power is cut.

KVTIER_TEST_EFFORT=20 takes twenty times as many walks; KVTIER_TEST_SEED starts with that seed.
"""

import os
import random
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.model.effort import examples

from .power import CutFiles
from .shapes import cpu, fs
from .walk import walk
from .world import World

_SEED = int(os.environ.get("KVTIER_TEST_SEED", "1"))
_STEPS = 30

SHAPES: dict[str, list[dict[str, Any]]] = {
    "alone": [fs(14)],
    "through": [cpu(5, write_through=["fs0"]), fs(16)],
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(_SEED, _SEED + examples(2)))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sync", ["close", "always"])
async def test_a_power_cut_takes_no_more_than_the_setting_says(
    sync: Literal["close", "always"],
    shape: str,
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`close`: blocks are whole or gone; `always`: stored ones are there, deleted ones gone."""
    rng = random.Random(f"{sync} {shape} {seed}")
    ground = CutFiles(tmp_path, rng, sync)

    await walk(World(SHAPES[shape], ground, rng, monkeypatch), _STEPS)
