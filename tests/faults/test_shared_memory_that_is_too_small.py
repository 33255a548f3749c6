"""A node in a container whose /dev/shm is small says so at its start, and never dies later."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .processes import ENVIRONMENT

MOUNT = 'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$@"'
STOP = 30


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Where a configuration may be, on a machine that lets a process have its own /dev/shm."""
    if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets no user mount a tmpfs of its own (unshare -rm)")
    return tmp_path / "node.yaml"


def start(config: Path, capacity: str) -> subprocess.Popen[str]:
    """Start a node with a host tier, where /dev/shm has 64 MiB as containers get by default."""
    tier = {"name": "cpu0", "medium": "cpu", "capacity": capacity}
    node = {"node_id": f"shm-{os.getpid()}", "listen": "127.0.0.1:0", "tiers": [tier]}
    config.write_text(json.dumps(node))
    command = (sys.executable, "-m", "kvtier.server", "--config", str(config))
    return subprocess.Popen(
        ["unshare", "-rm", "sh", "-c", MOUNT, "sh", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        text=True,
    )


def test_a_tier_that_does_not_fit_is_refused_with_both_sizes(config: Path) -> None:
    """One line tells what is needed and what is free, with an exit code and not a signal."""
    with start(config, "1GiB") as node:
        out, err = node.communicate(timeout=STOP)

    assert node.returncode == 1
    assert out == ""
    assert "tier cpu0: 1 GiB are needed in /dev/shm and 64 MiB are free" in err
    assert "Traceback" not in err


def test_a_tier_that_fits_is_served(config: Path) -> None:
    """In the same container a tier of half that size comes up, and ends as it should."""
    with start(config, "32MiB") as node:
        try:
            assert node.stdout is not None
            serving = json.loads(node.stdout.readline())
            node.send_signal(signal.SIGTERM)
            node.communicate(timeout=STOP)
        finally:
            node.kill()

    assert serving["listen"].startswith("127.0.0.1:")
    assert node.returncode == 0
