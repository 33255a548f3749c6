"""What a walk's lasting tiers stand on, and what a walk may do to that."""

import random
from collections.abc import Mapping
from typing import Any, Protocol

import pytest

from kvtier.server.lasting.record import make_name

from .blocks import EVERY_KEY, Key

_KEYS = {make_name(k.namespace, k.group, k.scope, k.block_hash, 0)[:64]: k for k in EVERY_KEY}


def key_of(name: str) -> Key:
    """Return the block that a file or object is of."""
    return _KEYS[name[:64]]


class Ground(Protocol):
    """Where the blocks of lasting tiers lie, over all lives of a node.

    Attributes:
        forgetful: Whether what was answered need not outlive every end.
        forgot: Whether it need not have outlived the last one.
        troubles: What `trouble` takes, with how often each is to happen.
    """

    forgetful: bool
    forgot: bool
    troubles: Mapping[str, int]

    @property
    def crashed(self) -> bool:
        """Whether this life has come to its end."""

    def settings(self, tier: str) -> dict[str, Any]:
        """Return what a tier's configuration says of where it is."""

    def begin(self, patch: pytest.MonkeyPatch) -> None:
        """Begin a life in fine weather."""

    def trouble(self, kind: str) -> None:
        """Let something be the matter until the calm."""

    def calm(self) -> None:
        """Let all be well."""

    def crash(self, after: int) -> None:
        """Let this life end after so many further operations, at once when it is none."""

    def harm(self, rng: random.Random, tier: str) -> set[Key]:
        """Do harm to what lies there from outside; return the blocks that it may be."""

    def names(self, tier: str) -> set[str]:
        """Return the names of the whole blocks that lie there."""

    def may_have_more(self) -> bool:
        """Tell whether more may lie there than a quiet tier's blocks."""
