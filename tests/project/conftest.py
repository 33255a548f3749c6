"""The project's documents, block by block, and a node to run their examples against."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))
TIERS = [
    {"name": "gpu0", "medium": "gpu", "device": "emulated", "capacity": "64MiB"},
    {"name": "cpu0", "medium": "cpu", "capacity": "64MiB"},
]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block: its language, its text, and the line of the document where it begins."""

    language: str
    text: str
    line: int


def _blocks_of(document: Path) -> list[Block]:
    text = document.read_text()
    return [
        Block(found[1], found[2], text.count("\n", 0, found.start()) + 1)
        for found in _FENCE.finditer(text)
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each document.

    A test that takes `blocks` gets all blocks of a document, and one that takes `python_blocks`,
    say, those of that language, from the documents that have any.
    """
    for name in metafunc.fixturenames:
        language, separator, rest = name.rpartition("blocks")[0].partition("_")
        if rest or not (name == "blocks" or separator):
            continue
        found = {
            document: [b for b in _blocks_of(document) if language in {"", b.language}]
            for document in DOCUMENTS
        }
        cases = [
            pytest.param(blocks, id=str(document.relative_to(ROOT)))
            for document, blocks in found.items()
            if blocks
        ]
        metafunc.parametrize(name, cases)


@pytest.fixture(params=DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def document(request: pytest.FixtureRequest) -> Path:
    """Each of the project's documents."""
    path: Path = request.param
    return path


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    """The address of a running node, `node-a`, with two small tiers."""
    settings = {
        "KVTIER_LISTEN": "127.0.0.1:0",
        "KVTIER_NODE_ID": "node-a",
        "KVTIER_TIERS": json.dumps(TIERS),
    }
    with subprocess.Popen(
        [sys.executable, "-m", "kvtier.server"],
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["listen"]
        finally:
            process.terminate()
