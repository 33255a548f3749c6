"""The proto files keep buf's rules, stay compatible, and tell the errors of every RPC."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

ROOT = Path(__file__).resolve().parents[2]
BUF = shutil.which("buf", path=str(Path(sys.executable).parent)) or "buf"
CODES = "|".join(code.name for code in grpc.StatusCode)
NO_ERRORS = re.compile(r"Errors: none of its own\b")
ERROR_LIST = re.compile(rf"Errors:\n(- ({CODES}): .+(\n  \S.*)*\n?)+\Z")


def _buf(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [BUF, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the proto files and buf's configuration, to be broken."""
    shutil.copy(ROOT / "buf.yaml", tmp_path)
    shutil.copytree(ROOT / "protos", tmp_path / "protos")
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ("lint",),
        ("format", "--diff", "--exit-code"),
        ("breaking", "--against", "protos/baseline.binpb"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_buf_has_nothing_to_say(arguments: tuple[str, ...]) -> None:
    """Lint, format and the comparison with the committed image pass."""
    done = _buf(*arguments)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_buf_refuses_a_removed_field(copied: Path) -> None:
    """The committed image is a real one: dropping a field of the API is noticed."""
    proto = copied / "protos" / "kvtier" / "v1" / "block.proto"
    text = proto.read_text()
    proto.write_text(text.replace("bytes namespace = 1;", ""))

    done = _buf("breaking", "--against", "protos/baseline.binpb", folder=copied)

    assert done.returncode != 0
    assert 'field "1" with name "namespace"' in done.stdout


def _rpc_comments() -> dict[str, str]:
    """Return the comment of every RPC by its name, from the compiled proto files."""
    built = subprocess.run(
        [BUF, "build", "--output", "-"], cwd=ROOT, capture_output=True, check=True
    )
    comments = {}
    for file in FileDescriptorSet.FromString(built.stdout).file:
        texts = {tuple(at.path): at.leading_comments for at in file.source_code_info.location}
        for i, service in enumerate(file.service):
            for j, method in enumerate(service.method):
                text = re.sub(r"^ ", "", texts.get((6, i, 2, j), ""), flags=re.MULTILINE)
                comments[f"{service.name}.{method.name}"] = text
    return comments


def test_every_rpc_tells_its_errors() -> None:
    """The comment of an RPC ends with its errors: a status code and when it is given, or none."""
    comments = _rpc_comments()

    untold = [n for n, text in comments.items() if not _tells_errors(text)]

    assert "TierService.LookupBlocks" in comments
    assert untold == []


def _tells_errors(comment: str) -> bool:
    return bool(NO_ERRORS.search(comment) or ERROR_LIST.search(comment))


@pytest.mark.parametrize(
    "comment",
    ["Does a thing.", "Does.\nErrors:\n", "Does.\nErrors:\n- SOMETIMES: it fails.\n"],
)
def test_untold_errors_are_noticed(comment: str) -> None:
    """No list, an empty list and an unknown code do not pass for a list of errors."""
    assert not _tells_errors(comment)
