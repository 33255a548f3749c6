"""Where tiers of files and objects keep their blocks: each in a place of its own."""

import os
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from kvtier.server.config.values import split_bucket

if TYPE_CHECKING:
    from kvtier.server.config.tier import TierConfig


class _Place(NamedTuple):
    """Where a tier keeps its blocks.

    Attributes:
        tier: The tier's name.
        setting: What says so.
        told: What it says.
        root: What two places must share for one to be inside the other.
        path: The place below that.
    """

    tier: str
    setting: str
    told: str
    root: tuple[str, ...]
    path: PurePosixPath


def check_places(tiers: Sequence["TierConfig"]) -> None:
    """Check that no tier keeps its blocks where another does, or inside.

    Raises:
        ValueError: When one does.
    """
    for one, other in combinations(_places(tiers), 2):
        if one.root != other.root:
            continue
        if one.path.is_relative_to(other.path) or other.path.is_relative_to(one.path):
            same = one.path == other.path
            what = f"both have the {one.setting} {one.told}"
            nested = (
                f"their {one.setting} settings {one.told} and {other.told} lie one in the other"
            )
            raise ValueError(
                f"tiers {one.tier} and {other.tier}: {what if same else nested}; give each a place "
                "of its own"
            )


def _places(tiers: Sequence["TierConfig"]) -> Iterator[_Place]:
    for tier in tiers:
        if tier.directory is not None:
            path = PurePosixPath(os.path.normpath(tier.directory))
            yield _Place(tier.name, "directory", str(path), ("directory",), path)
        elif tier.url is not None:
            bucket, prefix = split_bucket(tier.url)
            root = ("url", (tier.endpoint or "").rstrip("/"), bucket)
            yield _Place(tier.name, "url", tier.url, root, PurePosixPath(prefix))
