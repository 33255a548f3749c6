"""Wheel and sdist hold the three source roots and nothing else."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = ("protos", "server", "client")

pytestmark = pytest.mark.slow


def _run(*arguments: str, folder: Path = ROOT) -> None:
    subprocess.run([sys.executable, "-m", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel made from that sdist."""
    out = tmp_path_factory.mktemp("dist")
    _run("hatchling", "build", "--target", "sdist", "--directory", str(out))
    sdist = next(out.glob("*.tar.gz"))
    options = ("--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
    _run("pip", "wheel", *options, "--wheel-dir", str(out), str(sdist), folder=out)
    return out


def _sources() -> set[str]:
    """Return every tracked file of the three roots, as it is named below its root."""
    listed = subprocess.run(
        ["git", "ls-files", *(f"{root}/kvtier" for root in SOURCE_ROOTS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git clone: which files belong to the project is not known")
    return {line.partition("/")[2] for line in listed.stdout.splitlines()}


def test_wheel_holds_every_source_file_under_one_namespace(built: Path) -> None:
    """Each tracked file of the roots lies below kvtier/, and no kvtier/__init__.py does."""
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = wheel.namelist()

    packaged = {n for n in names if n.startswith("kvtier/")}

    assert _sources() <= packaged
    assert "kvtier/__init__.py" not in packaged
    assert {n.split("/")[0] for n in names if not n.startswith("kvtier/")} == {
        next(n for n in names if n.endswith("/METADATA")).split("/")[0]
    }


def test_wheel_has_licence_command_and_extras(built: Path) -> None:
    """The wheel brings its licence, the kvtier command, and the extras that the README names."""
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        texts = {
            name.partition(".dist-info/")[2]: wheel.read(name).decode()
            for name in wheel.namelist()
            if ".dist-info/" in name
        }

    metadata = texts["METADATA"]

    assert "Apache License" in texts["licenses/LICENSE"]
    assert "kvtier = kvtier.cli.main:main" in texts["entry_points.txt"]
    extras = {line.split()[-1] for line in metadata.splitlines() if line.startswith("Provides-Ex")}
    assert extras == {"server", "s3", "cuda12", "cuda13", "torch", "otel"}


def test_sdist_keeps_the_roots_apart(built: Path) -> None:
    """The sdist has the tree as it is in the repository, with tests and documentation."""
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        names = sdist.getnames()

    tops = {n.split("/")[1] for n in names if "/" in n}

    assert {*SOURCE_ROOTS, "tests", "docs", "deploy", "README.md", "LICENSE"} <= tops
