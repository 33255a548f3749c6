"""The committed Python code is what the proto files give, and the check would notice otherwise."""

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """The script tools/gen_protos.py as a module."""
    pytest.importorskip("grpc_tools", reason="grpcio-tools 1.71 has no wheel for this Python")
    spec = importlib.util.spec_from_file_location("gen_protos", ROOT / "tools" / "gen_protos.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_committed_code_equals_a_fresh_generation(generator: ModuleType) -> None:
    """Generating anew changes no file, adds none and leaves none over."""
    assert generator.outdated(ROOT / "protos") == []


def test_changed_missing_and_stray_files_are_noticed(generator: ModuleType, tmp_path: Path) -> None:
    """The check names a file that differs, one that is missing and one that has no proto."""
    package = tmp_path / "kvtier" / "v1"
    shutil.copytree(ROOT / "protos" / "kvtier" / "v1", package)
    (package / "block_pb2.py").write_text("# changed\n")
    (package / "tier_pb2.pyi").unlink()
    (package / "gone_pb2.py").touch()

    names = generator.outdated(tmp_path)

    assert names == ["block_pb2.py", "gone_pb2.py", "tier_pb2.pyi"]
