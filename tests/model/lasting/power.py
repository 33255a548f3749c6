"""A directory on a disk that forgets, in a power cut, what was not flushed."""

import random
from pathlib import Path
from typing import Literal

import pytest

from kvtier.server.lasting.disk import Disk
from tests.unit.lasting.power_cut_disk import PowerCutDisk

from .blocks import Key
from .files import Files, names_on


class CutFiles(Files):
    """A `Ground` of one tier of files that most crashes are power cuts for."""

    def __init__(self, root: Path, rng: random.Random, sync: Literal["close", "always"]) -> None:
        super().__init__(root, rng, sync)
        self._rng = rng
        self._power = PowerCutDisk()
        self.forgetful = sync != "always"

    def disk(self, root: int) -> Disk:
        """See `Files`."""
        return self._power

    def begin(self, patch: pytest.MonkeyPatch) -> None:
        """See `Ground`."""
        cut = self.crashed and self._rng.random() < 0.8
        if cut:
            self._power.cut(self._rng)
        self.forgot = cut and self.forgetful
        super().begin(patch)

    def harm(self, rng: random.Random, tier: str) -> set[Key]:
        """See `Ground`: here only the power does harm."""
        return set()

    def names(self, tier: str) -> set[str]:
        """See `Ground`."""
        return names_on(self._power)
