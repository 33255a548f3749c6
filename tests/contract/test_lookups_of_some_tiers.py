"""Lookups in which only some of a node's tiers count."""

from pathlib import Path
from typing import Any

import pytest

from kvtier.client import InvalidArgumentError
from kvtier.v1.block_pb2 import Locality, Medium
from kvtier.v1.result_pb2 import LookupResult

from .conftest import Serve
from .filed import files_tier
from .support import blocks_of, cpu_tier, gpu_tier, words

GPU, CPU, FS = Medium.MEDIUM_GPU, Medium.MEDIUM_CPU, Medium.MEDIUM_FS
LOCAL, REMOTE = Locality.LOCALITY_LOCAL, Locality.LOCALITY_REMOTE


@pytest.mark.parametrize(
    ("wanted", "prefixes", "results"),
    [
        ({}, {"gpu0": 1, "cpu0": 0, "fs0": 0}, ["HIT", "HIT", "MISS"]),
        ({"media": [CPU]}, {"cpu0": 0}, ["MISS", "HIT", "MISS"]),
        ({"media": [GPU, FS]}, {"gpu0": 1, "fs0": 0}, ["HIT", "MISS", "MISS"]),
        ({"localities": [LOCAL], "media": [GPU]}, {"gpu0": 1}, ["HIT", "MISS", "MISS"]),
        ({"localities": [REMOTE]}, {}, ["MISS", "MISS", "MISS"]),
    ],
)
async def test_only_tiers_of_the_wanted_media_and_localities_count(
    serve: Serve,
    tmp_path: Path,
    wanted: dict[str, Any],
    prefixes: dict[str, int],
    results: list[str],
) -> None:
    """The others are not named, and what only they hold is a miss."""
    node = await serve(gpu_tier(4), cpu_tier(4), files_tier(tmp_path / "files"))
    await node.store("A", tier="gpu0")
    await node.store("B", tier="cpu0")

    chain = blocks_of("A", "B", "C")
    answer = await node.client.lookup(node.namespace, [chain], include_blocks=True, **wanted)

    assert dict(zip(answer.tiers, answer.chains[0].prefix_lengths, strict=True)) == prefixes
    assert words(LookupResult, answer.chains[0].results) == results
    assert answer.chains[0].union_prefix_length == results.index("MISS")


@pytest.mark.parametrize("wanted", [{"media": [77]}, {"localities": [77]}])
async def test_what_stands_for_nothing_is_refused(serve: Serve, wanted: dict[str, Any]) -> None:
    """The message names the number and those that there are."""
    node = await serve(cpu_tier(4))

    with pytest.raises(InvalidArgumentError, match="77 is not known"):
        await node.client.lookup(node.namespace, [blocks_of("A")], **wanted)
