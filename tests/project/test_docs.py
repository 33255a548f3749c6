"""What the documents tell people to type works, and prints what they say."""

import doctest
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvtier.server.config import load_config
from kvtier.wire.errors import Reason

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = {"console", "python", "yaml", "json", "text", "mermaid"}
DEFAULT_ENDPOINT = "127.0.0.1:7600"
# Beginnings of the commands that are not run here, and why.
NOT_RUN = {
    "make demo": "a test of its own runs the demo",
    "make test": "this is one of the tests",
    "make venv": "installs from the package index",
    "python3 -m venv ": "makes an environment in place of the one under test",
    "pip ": "installs from the package index",
    "kvtier serve": "runs until it is stopped; two nodes run already",
    "kvtier proxy": "runs until it is stopped; a proxy of the two runs already",
    "docker ": "needs Docker",
    "helm ": "needs a Kubernetes cluster",
    "kubectl ": "needs a Kubernetes cluster",
}
_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
_MATCHES = doctest.OutputChecker().check_output
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def test_every_block_is_of_a_known_language(blocks: list[Any]) -> None:
    """No block escapes the tests below by having no language or another."""
    assert [b for b in blocks if b.language not in LANGUAGES] == []


@pytest.mark.slow
def test_python_blocks_run(
    python_blocks: list[Any], localized: Callable[[str], str], tmp_path: Path
) -> None:
    """Each Python block is a whole program that runs against a node without a word on stderr."""
    for block in python_blocks:
        if "import torch" in block.text:
            pytest.importorskip("torch", reason="torch is not installed; see the group torch-cpu")
        script = tmp_path / "example.py"
        script.write_text(localized(block.text))

        done = subprocess.run(
            [sys.executable, "-W", "error", script],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

        assert (done.returncode, done.stderr) == (0, ""), f"line {block.line}"


def _commands(block: Any) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with the output that follows it."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert parts[0] == "", f"line {block.line}: a console block begins with a command"
    found = []
    for part in parts[1:]:
        lines = part.splitlines(keepends=True)
        length = next(i for i, line in enumerate(lines, 1) if not line.endswith("\\\n"))
        found.append(("".join(lines[:length]), "".join(lines[length:])))
    return found


@pytest.mark.slow
def test_console_blocks_print_what_they_say(
    console_blocks: list[Any], localized: Callable[[str], str], tmp_path: Path
) -> None:
    """A document's commands, in one shell, succeed and print what stands under them.

    In the document `...` stands for what differs from run to run.
    """
    env = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "KVTIER_ENDPOINTS": localized(DEFAULT_ENDPOINT),
        "COLUMNS": "100",
    }
    commands = [
        (localized(command), localized(output))
        for block in console_blocks
        for command, output in _commands(block)
        if not command.startswith(tuple(NOT_RUN))
    ]
    script = "".join(f'{command}\necho "\x1e$?"\n' for command, _ in commands)

    done = subprocess.run(
        ["bash", "-c", f"exec 2>&1\n{script}"],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )

    printed = re.split(r"\x1e(\d+)\n", done.stdout)
    for (command, expected), got, code in zip(commands, printed[::2], printed[1::2], strict=False):
        assert code == "0", f"{command}{got}"
        assert _MATCHES(expected, got, _FLAGS), f"{command}printed\n{got}instead of\n{expected}"
    assert len(printed) == 2 * len(commands) + 1


def test_yaml_blocks_are_configurations(yaml_blocks: list[Any], tmp_path: Path) -> None:
    """Each YAML block is a configuration that the server accepts."""
    for block in yaml_blocks:
        path = tmp_path / "config.yaml"
        path.write_text(block.text)

        assert load_config(path, {}, {}).tiers


def test_json_blocks_parse(json_blocks: list[Any]) -> None:
    """Each JSON block is one value, or one a line."""
    for block in json_blocks:
        assert [json.loads(line) for line in block.text.splitlines()]


def test_links_lead_somewhere(document: Path) -> None:
    """Every relative link names a file of the project, and a heading that is in it."""
    for target, heading in _LINK.findall(document.read_text()):
        if "://" in target:
            continue
        path = (document.parent / target).resolve() if target else document

        assert path.exists(), target
        if heading:
            titles = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles}
            assert heading in anchors, f"{target}#{heading}"


def test_documents_name_no_make_target_that_is_not_there(document: Path) -> None:
    """Every `make target` in a document is a target of the Makefile."""
    phony = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None

    named = set(re.findall(r"(?:`|^\$ )make ([a-z-]+)", document.read_text(), re.MULTILINE))

    assert named <= set(phony[1].split())


def test_the_index_lists_every_page() -> None:
    """No page of docs/ is found by chance only."""
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}

    assert pages <= {target for target, _ in _LINK.findall((ROOT / "docs/README.md").read_text())}


def test_the_protocol_names_every_reason() -> None:
    """Whoever writes a client finds each reason of a refusal, and what to do, in the table."""
    table = re.findall(
        r"^\| [A-Z_]+ \| ([A-Z_, ]+) \|", (ROOT / "docs/protocol.md").read_text(), re.MULTILINE
    )

    assert {reason for row in table for reason in row.split(", ")} >= set(Reason)
