"""The tree keeps its shape: one namespace over three roots, small files, short functions."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = ("protos", "server", "client")
PORTIONS = (
    "protos/kvtier/v1",
    "protos/kvtier/wire",
    "server/kvtier/proxy",
    "server/kvtier/server",
    "server/kvtier/proxy",
    "client/kvtier/client",
    "client/kvtier/cli",
)
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 80


def _handwritten(pattern: str) -> list[Path]:
    folders = (*SOURCE_ROOTS, "tests", "benchmarks", "tools", "deploy")
    found = [p for folder in folders for p in (ROOT / folder).rglob(pattern)]
    return [p for p in found if "_pb2" not in p.name]


def test_the_namespace_package_has_no_init() -> None:
    """A file kvtier/__init__.py would hide the other source roots."""
    assert [r for r in SOURCE_ROOTS if list((ROOT / r / "kvtier").glob("__init__.py*"))] == []
    assert sorted(p.name for r in SOURCE_ROOTS for p in (ROOT / r).iterdir() if p.is_dir()) == [
        "kvtier"
    ] * len(SOURCE_ROOTS)


@pytest.mark.parametrize("portion", PORTIONS)
def test_portion_is_a_typed_package(portion: str) -> None:
    """Each portion of the namespace is a package of its own and says that it is typed."""
    assert (ROOT / portion / "__init__.py").is_file()
    assert (ROOT / portion / "py.typed").is_file()


def test_there_are_no_other_portions() -> None:
    """The list above is all there is."""
    found = {
        str(p.relative_to(ROOT))
        for root in SOURCE_ROOTS
        for p in (ROOT / root / "kvtier").iterdir()
        if p.is_dir() and p.name != "__pycache__"
    }

    assert found == set(PORTIONS)


def test_no_file_is_too_long() -> None:
    """Every hand-written Python, proto and template file can be read in one sitting."""
    files = [p for pattern in ("*.py", "*.proto", "*.tpl", "*.yaml") for p in _handwritten(pattern)]

    lengths = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in files}

    assert len(lengths) > 20
    assert {n: lines for n, lines in lengths.items() if lines > MAX_FILE_LINES} == {}


def test_no_function_is_too_long() -> None:
    """Every function fits on a screen."""
    too_long = {}
    for path in _handwritten("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    too_long[f"{path.relative_to(ROOT)}:{node.name}"] = lines

    assert too_long == {}


def test_the_ci_script_can_be_executed() -> None:
    """A clone has .ci/run with its executable bit."""
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize("module", ["kvtier.client", "kvtier.cli.main", "kvtier.wire"])
def test_light_modules_import_without_the_heavy_ones(module: str) -> None:
    """Client, command line and shared code need neither the server nor what only it needs."""
    heavy = ("torch", "cupy", "numpy", "pydantic", "structlog", "uvloop", "yaml", "kvtier.server")
    code = (
        f"import sys\nfor name in {heavy}: sys.modules[name] = None\n"
        f"import {module}\nprint('imported')"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.stdout.strip(), done.stderr) == ("imported", "")
