"""Fetching promtool never breaks a build, and says in one line what is missing."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.monitoring.metrics import ROOT

SCRIPT = ROOT / "tools" / "get_promtool.sh"


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder that is all of PATH, with what every system has."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("cp", "id", "mkdir", "mktemp", "mv", "rm", "tail"):
        program = shutil.which(name)
        assert program is not None
        (folder / name).symlink_to(program)
    return folder


def _program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def _get(tools: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    sh = shutil.which("sh")
    assert sh is not None
    folder.mkdir(exist_ok=True)
    env = {"PATH": str(tools), "TMPDIR": str(folder)}
    return subprocess.run(
        [sh, SCRIPT, folder], env=env, capture_output=True, text=True, check=False
    )


def test_without_apt_it_says_so_and_succeeds(tools: Path, tmp_path: Path) -> None:
    """One line on stderr, and exit code 0."""
    done = _get(tools, tmp_path / "bin")

    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("No promtool: this is no Debian.")
    assert done.stderr.count("\n") == 1


def test_without_a_network_it_says_why_and_succeeds(tools: Path, tmp_path: Path) -> None:
    """The line has what apt-get said last, and nothing is left behind."""
    _program(tools / "dpkg-deb", "exit 1")
    _program(tools / "apt-get", "echo 'E: nobody answers'; exit 100")

    done = _get(tools, tmp_path / "bin")

    assert (done.returncode, done.stdout) == (0, "")
    assert "E: nobody answers" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list((tmp_path / "bin").iterdir()) == []


def test_what_is_there_is_not_fetched_again(tools: Path, tmp_path: Path) -> None:
    """One on PATH or in the folder is enough, and apt-get is not asked."""
    _program(tools / "apt-get", "echo asked >&2; exit 1")
    _program(tools / "dpkg-deb", "exit 1")
    (tmp_path / "bin").mkdir()
    _program(tmp_path / "bin" / "promtool", "exit 0")

    done = _get(tools, tmp_path / "bin")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_it_takes_promtool_out_of_the_package(tools: Path, tmp_path: Path) -> None:
    """Only that program arrives, and it can be executed."""
    _program(tools / "apt-get", 'case "$*" in *download*) : > prometheus_1_all.deb;; esac')
    _program(
        tools / "dpkg-deb",
        'mkdir -p "$3/usr/bin"; : > "$3/usr/bin/promtool"; : > "$3/usr/bin/prometheus"\n'
        f'{shutil.which("chmod")} 755 "$3/usr/bin/promtool"',
    )

    done = _get(tools, tmp_path / "bin")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (found,) = (tmp_path / "bin").iterdir()
    assert found.name == "promtool"
    assert found.stat().st_mode & 0o111
