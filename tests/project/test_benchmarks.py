"""The benchmarks run: their figures are for people, that they work is for the tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MEASUREMENTS = {
    "throughput": "Throughput, followers: 1",
    "latency": "Latency",
    "slow": "A follower that reads only afterwards",
    "subscribe": "A new follower of a node",
    "join": "A fresh proxy over 4 nodes",
}


BULK = {"hosts": "Between hosts, batches of 1", "lookups": "Lookups of 24 blocks"}


def _run(*arguments: str, package: str = "benchmarks.events") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "VLLM"}
    command = [sys.executable, "-m", package, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=100
    )


@pytest.mark.slow
@pytest.mark.parametrize("measurement", MEASUREMENTS)
def test_each_measurement_of_events_works(measurement: str) -> None:
    """At tiny sizes, and without a peer, every measurement prints its table and how to get one."""
    done = _run(measurement, "--tiny", "--turns", "1")

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert MEASUREMENTS[measurement] in done.stdout
    assert "pip download" in done.stdout


def test_an_unknown_measurement_is_refused_by_name() -> None:
    """A measurement that does not exist is named, and nothing is measured."""
    done = _run("speed")

    assert done.returncode == 2
    assert "speed" in done.stderr


def test_a_peer_that_is_not_there_is_refused_by_name() -> None:
    """A path where vLLM is not is named, with how to get it, and nothing is measured."""
    done = _run("slow", "--vllm", "/nowhere/vllm.whl")

    assert done.returncode == 2
    assert "/nowhere/vllm.whl" in done.stderr
    assert "pip download" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("measurement", "title"), BULK.items())
def test_each_measurement_of_bulk_works(measurement: str, title: str) -> None:
    """At tiny sizes every measurement prints its table; a peer that is not there is told."""
    done = _run(measurement, "--tiny", "--turns", "1", package="benchmarks.bulk")

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert title in done.stdout
    assert "kvtier" in done.stdout or measurement != "hosts"


def test_an_unknown_measurement_of_bulk_is_refused_by_name() -> None:
    """As of events."""
    done = _run("speed", package="benchmarks.bulk")

    assert done.returncode == 2
    assert "speed" in done.stderr
