"""Tiers that are smaller than a block, or larger than the machine."""

from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("capacity", "told"),
    [
        ("0", "(TIER_FULL)"),
        ("1KiB", "the whole tier cpu0 has 1024: raise its capacity (BLOCK_TOO_LARGE)"),
    ],
)
def test_a_tier_smaller_than_a_block_refuses_stores(
    cli: Any, start_node: Any, capacity: str, told: str
) -> None:
    """It serves, and says with each store what to raise."""
    tier = {"name": "cpu0", "medium": "cpu", "capacity": capacity}
    node = start_node({"tiers": [tier], "drain_timeout": 0})

    put = ("put", "-", "-n", "x", "--block-bytes", "4KiB", "-e", node.endpoint)
    result = cli(*put, stdin=b"a" * 4096)

    assert (result.code, result.out) == (1, b"")
    assert told in result.err


@pytest.mark.parametrize("medium", ["cpu", "gpu"])
def test_more_memory_than_there_is_stops_the_start(
    start_cli: Any, tmp_path: Path, medium: str
) -> None:
    """The line names the tier, what it wants and what is free."""
    place = f"shm_dir: {tmp_path}" if medium == "cpu" else "device: emulated"
    tier = f"{{name: big0, medium: {medium}, capacity: 4000TiB, {place}}}"

    process = start_cli("serve", KVTIER_LISTEN="127.0.0.1:0", KVTIER_TIERS=f"[{tier}]")
    out, err = process.communicate(timeout=60)

    assert (process.returncode, out) == (1, b"")
    assert b"error: tier big0: 4000 TiB are needed" in err
    assert b"are free" in err
    assert list(tmp_path.iterdir()) == []
