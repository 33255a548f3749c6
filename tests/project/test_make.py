"""The Makefile names its targets, and says plainly what a machine lacks."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_help_tells_every_target() -> None:
    """`make` alone prints one line for each public target."""
    phony = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None

    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    shown = subprocess.run(
        ["make"], cwd=ROOT, env=outside, capture_output=True, text=True, check=True
    ).stdout

    assert [line.split()[0] for line in shown.splitlines()] == phony[1].split()
    assert all(len(line.split()) > 1 for line in shown.splitlines())


def _fake_python(path: Path, body: str) -> str:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def _make_venv(folder: Path, python: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "tools" / "make_venv.sh", folder / "venv", python],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("body", ["exit 1", "exec /nowhere/python"], ids=["too old", "broken"])
def test_an_unfit_python_is_refused_by_name(tmp_path: Path, body: str) -> None:
    """A PYTHON that is too old or does not run is named, and no environment is left behind."""
    python = _fake_python(tmp_path / "python", body)

    done = _make_venv(tmp_path, python)

    assert done.returncode == 1
    assert done.stderr.startswith(f"error: PYTHON={python}")
    assert not (tmp_path / "venv").exists()


def test_a_python_without_ensurepip_and_pip_is_told_what_to_install(tmp_path: Path) -> None:
    """On a Debian machine without python3-venv and pip the message names the package."""
    python = _fake_python(
        tmp_path / "python", 'case "$2" in *ensurepip*|*pip*) exit 1;; *) exit 0;; esac'
    )

    done = _make_venv(tmp_path, python)

    assert done.returncode == 1
    assert "apt install python3-venv" in done.stderr


def test_no_python_at_all_is_told(tmp_path: Path) -> None:
    """Without any Python on the path the message says which version to install."""
    sh = shutil.which("sh")
    assert sh is not None

    done = subprocess.run(
        [sh, ROOT / "tools" / "make_venv.sh", tmp_path / "venv"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "no Python 3.11 or newer" in done.stderr
