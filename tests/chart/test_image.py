"""The image holds what the project says, and starts what the chart starts."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.chart.builders import INSECURE
from tests.chart.conftest import Render

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


class Step(NamedTuple):
    """An instruction: the stage that it is in, its word, and what follows."""

    stage: str
    word: str
    rest: str


def _steps() -> list[Step]:
    lines = [x for x in DOCKERFILE.read_text().splitlines() if not x.lstrip().startswith("#")]
    steps, stage = [], ""
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        stage = rest.rpartition(" AS ")[2] if word == "FROM" else stage
        if word:
            steps.append(Step(stage, word, rest))
    return steps


STEPS = _steps()


def _rest(word: str, stage: str = "runtime") -> str:
    (found,) = [step.rest for step in STEPS if (step.stage, step.word) == (stage, word)]
    return found


def test_the_linter_has_nothing_to_say() -> None:
    """Not even a remark."""
    hadolint = Path(sys.executable).parent / "hadolint"

    done = subprocess.run(
        [hadolint, "--failure-threshold", "style", DOCKERFILE],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "")


def test_the_entry_point_is_the_command_of_the_project(render: Render) -> None:
    """It is started as it is, by the image and by the chart, so that signals reach it."""
    entry_point = json.loads(_rest("ENTRYPOINT"))

    assert entry_point == list(PROJECT["scripts"])
    assert json.loads(_rest("CMD")) == ["serve"]
    assert render(INSECURE).container("node")["command"] == entry_point


def test_the_image_runs_as_the_user_of_the_chart(render: Render) -> None:
    """So that volumes and shared memory belong to one user whoever starts it."""
    security = render(INSECURE).pods["node"]["securityContext"]

    assert _rest("USER") == f"{security['runAsUser']}:{security['runAsGroup']}"


def test_both_images_are_the_same_but_for_their_environment() -> None:
    """The one for the CPU is what a build without a target gives."""
    stages = [step.rest.split(" AS ") for step in STEPS if step.word == "FROM"]

    assert stages[-2:] == [["runtime", "cuda"], ["runtime", "cpu"]]
    for target in ("cpu", "cuda"):
        assert _rest("COPY", target) == f"--from={target}-environment /opt/kvtier /opt/kvtier"


def test_the_extras_that_are_installed_exist() -> None:
    """A name that pip does not know would be left out with a warning."""
    text = DOCKERFILE.read_text()
    (default,) = re.findall(r"^ARG CUDA=(\d+)$", text, re.MULTILINE)

    extras = ",".join(re.findall(r"\.whl\)\[([^]]+)\]", text)).replace("${CUDA}", default)

    assert {"server", "s3", "otel", f"cuda{default}"} == set(extras.split(","))
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])


def test_the_python_is_one_that_the_project_is_for() -> None:
    """And the stages have the same one, since the environment is copied."""
    (version,) = re.findall(r"^ARG PYTHON=(\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    bases = {s.rest.split(" AS ")[0] for s in STEPS if s.word == "FROM" and "python" in s.rest}

    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]
    assert bases == {"python:${PYTHON}-slim"}


def test_the_allocator_is_told_what_the_documents_say() -> None:
    """The variables are those of the section on memory."""
    told = dict(re.findall(r"(MALLOC_\w+)=(\d+)", _rest("ENV")))
    documented = dict(
        re.findall(r"(MALLOC_\w+)=(\d+)", (ROOT / "docs" / "operations.md").read_text())
    )

    assert told == documented
    assert len(told) == 3


def test_no_server_is_named() -> None:
    """Packages come from whatever index the builder uses."""
    assert not re.search(r"https?://|\w\.(org|com|io)\b", DOCKERFILE.read_text())


def _sent_to_the_builder() -> list[Path]:
    """Return the files that .dockerignore lets through: named ones, but for what follows them."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    named = [ROOT / rule[1:] for rule in rules if rule.startswith("!")]
    left_out = [rule.removeprefix("**/") for rule in rules[1:] if not rule.startswith("!")]
    files = [f for path in named for f in ([path] if path.is_file() else path.rglob("*"))]
    return [
        file
        for file in files
        if file.is_file() and not any(fnmatch(p, o) for p in file.parts for o in left_out)
    ]


@pytest.mark.slow
def test_what_the_builder_gets_is_enough_for_the_wheel(tmp_path: Path) -> None:
    """The wheel has everything that one of the whole project has."""
    part = tmp_path / "part"
    for file in _sent_to_the_builder():
        copy = part / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)

    def names(source: Path, name: str) -> list[str]:
        out = tmp_path / name
        command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
        subprocess.run([*command, "--directory", out], cwd=source, check=True, capture_output=True)
        with zipfile.ZipFile(next(out.glob("*.whl"))) as wheel:
            return sorted(wheel.namelist())

    assert names(part, "small") == names(ROOT, "whole")
