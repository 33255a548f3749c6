"""What the commands that look print, whole, in every format.

The files in `golden/` are what is expected. `KVTIER_TEST_GOLDEN=write` writes them anew, to be read
before they are committed.
"""

import json
import os
import re
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import pytest

from kvtier.cli.main import main
from kvtier.cli.nodes import RunningNode
from kvtier.cli.options import OUTPUTS
from kvtier.cli.output import times

GOLDEN = Path(__file__).with_name("golden")
HASHES = [f"{digit}" * 64 for digit in "abc"]
NOWHERE = "d" * 64
SIZE = 64
CHAIN = (*HASHES, NOWHERE)
KEY = ("-n", "files")
COMMANDS = {
    "get-nodes": ("get", "nodes"),
    "get-tiers": ("get", "tiers"),
    "get-namespaces": ("get", "namespaces"),
    "get-blocks": ("get", "blocks"),
    "describe-block": ("describe", "block", HASHES[0], *KEY),
    "describe-node": ("describe", "node", "node-a"),
    "lookup": ("lookup", *CHAIN, *KEY),
    "lookup-blocks": ("lookup", *CHAIN, *KEY, "--blocks"),
    "lookup-all-nodes": ("lookup", *CHAIN, *KEY, "--all-nodes"),
}
# What differs from run to run, and what stands for it. Every stand-in is as wide as what it stands
# for where a table could tell.
VARYING = (
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r'((?:remaining|age)"?: "?)[\d.]+s', r"\1DURATION"),
    (r'((?:incarnation|epoch)"?:? *"?)[0-9a-f]{16}\b', r"\1FEDCBA9876543210"),
    (r"\b[0-9a-f]{16}(:\d)", r"FEDCBA9876543210\1"),
    # Hexadecimal that has no letter, or begins with a digit, is quoted in YAML.
    (r'((?:incarnation|epoch): )"?FEDCBA9876543210"?', r"\1FEDCBA9876543210"),
)


class Later(datetime):
    """A clock that is a day ahead, so that whatever was stored just now is a day old."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "Later":
        ahead: Later = super().now(tz) + timedelta(days=1)
        return ahead


class Cluster(NamedTuple):
    """Three nodes of fixed contents."""

    nodes: tuple[RunningNode, ...]

    @property
    def endpoints(self) -> str:
        return ",".join(node.endpoint for node in self.nodes)

    def steady(self, text: str) -> str:
        """Return output without what differs from run to run."""
        for node in self.nodes:
            port = node.endpoint.rpartition(":")[2]
            text = text.replace(node.endpoint, f"127.0.0.1:{node.node_id[-1].upper() * len(port)}")
        for pattern, stand_in in VARYING:
            text = re.sub(pattern, stand_in, text)
        return text.replace(version("kvtier"), "0.0.0")


@pytest.fixture(scope="module", name="cluster")
def _cluster(start_node: Any, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """Three nodes: one with GPU and host tiers, one with a host tier, one with a tier of files.

    The first block is in both tiers of the first node, pinned in one, and on the second node; the
    third block is in a file only.
    """
    folder = tmp_path_factory.mktemp("golden")
    size = {"capacity": "64KiB", "slot_bytes": SIZE}
    gpu = {"name": "gpu0", "medium": "gpu", "device": "emulated", "on_evict": "cpu0", **size}
    cpu = {"name": "cpu0", "medium": "cpu", **size}
    fs = {"name": "fs0", "medium": "fs", "capacity": "1MiB", "directory": str(folder / "fs")}
    tiers = {"node-a": [gpu, cpu], "node-b": [cpu], "node-c": [{**fs, "scrub_rate": 0}]}
    nodes = [
        start_node({"node_id": name, "drain_timeout": 0, "tiers": mine})
        for name, mine in tiers.items()
    ]
    first, second, third = (node.endpoint for node in nodes)
    data = folder / "data"
    for endpoint, tier, hashes, place in (
        (first, "cpu0", HASHES[:2], ()),
        (first, "gpu0", HASHES[:1], ()),
        (second, "cpu0", HASHES[:1], ()),
        (third, "fs0", HASHES[2:], ("--parent", HASHES[1], "--start-position", "32")),
    ):
        data.write_text("".join(each[0] * SIZE for each in hashes))
        named = [word for each in hashes for word in ("--hash", each)]
        put = ["put", str(data), *KEY, "--block-bytes", str(SIZE), "--tier", tier, *named, *place]
        assert main([*put, "-e", endpoint]) == 0
    assert main(["pin", HASHES[0], *KEY, "--tier", "cpu0", "--ttl", "7000", "-e", first]) == 0
    return Cluster(tuple(nodes))


def _transcript(cli: Callable[..., Any], cluster: Cluster, command: tuple[str, ...]) -> str:
    parts = []
    for output in OUTPUTS:
        result = cli(*command, "-o", output, "-e", cluster.endpoints)
        assert (result.code, result.err) == (0, ""), output
        parts.append(f"$ kvtier {' '.join(command)} -o {output}\n{cluster.steady(result.text)}")
    return "\n".join(parts)


def _wait_until_no_followers(cli: Callable[..., Any], cluster: Cluster) -> None:
    """Wait until the nodes have noticed that the followers of an earlier command are gone."""
    end = monotonic() + 20
    while True:
        nodes = json.loads(cli("get", "nodes", "-o", "json", "-e", cluster.endpoints).out)
        if not any(node["followers"] for node in nodes):
            return
        assert monotonic() < end, "followers stay"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_output_is_as_it_was_agreed(
    cli: Callable[..., Any], cluster: Cluster, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Each format, to the letter, over three nodes; what differs from run to run is replaced."""
    golden = GOLDEN / f"{name}.txt"
    _wait_until_no_followers(cli, cluster)
    monkeypatch.setattr(times, "datetime", Later)

    got = _transcript(cli, cluster, COMMANDS[name])

    if os.environ.get("KVTIER_TEST_GOLDEN") == "write":
        golden.write_text(got)
    assert got == golden.read_text()
