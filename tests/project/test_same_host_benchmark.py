"""The benchmark of a tier mapped on one host runs: its figures are for people."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_same_host_is_measured_beside_memcpy_and_a_stream() -> None:
    """At a tiny size, also where Redis is not there."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.bulk", "same-host", "--tiny", "--turns", "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "On one host, batches of 1" in done.stdout
    for name in ("memcpy", "Redis", "kvtier, stream", "kvtier, memory", "kvtier, read in place"):
        assert name in done.stdout
