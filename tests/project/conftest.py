"""The project's documents, block by block, and what their examples run against."""

import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))
NODES = {"node-a": "127.0.0.1:7600", "node-b": "127.0.0.1:7601"}
PROXY = "127.0.0.1:7700"
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


@pytest.fixture
def localized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Two fresh nodes of the README's configuration, a proxy, and what puts them into a text."""
    (block, *_) = (b for b in _blocks_of(ROOT / "README.md") if b.language == "yaml")
    config = yaml.safe_load(block.text)
    with ExitStack() as running:
        documented = (*NODES.values(), PROXY)
        addresses = {address: f"127.0.0.1:{_free_port()}" for address in documented}
        own_nodes = [addresses[address] for address in NODES.values()]
        for node_id, own in zip(NODES, own_nodes, strict=True):
            fields = {"node_id": node_id, "listen": own, "peers": own_nodes}
            running.enter_context(_node(tmp_path_factory.mktemp(node_id), config | fields))
        running.enter_context(_proxy(addresses[PROXY], *own_nodes))
        yield lambda text: re.sub("|".join(addresses), lambda found: addresses[found[0]], text)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _node(folder: Path, config: dict[str, Any]) -> Iterator[None]:
    """Run a node that shares nothing with others of its name."""
    for tier in config["tiers"]:
        if tier["medium"] == "cpu":
            tier["shm_dir"] = str(folder)
    path = folder / "node.yaml"
    path.write_text(yaml.safe_dump(config))
    with _serving("-m", "kvtier.server", "--config", str(path)):
        yield


@contextmanager
def _proxy(listen: str, primary: str, secondary: str) -> Iterator[None]:
    """Run a proxy that has heard of both nodes."""
    nodes = ("--primary", primary, "--secondary", secondary)
    with _serving("-m", "kvtier.proxy", "--node-id", "proxy", "--listen", listen, *nodes):
        with grpc.insecure_channel(listen) as channel:
            checks = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            assert any(check.status == check.SERVING for check in checks)
        yield


@contextmanager
def _serving(*command: str) -> Iterator[None]:
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["event"] == "serving"
            yield
        finally:
            process.terminate()
