"""What somebody put where a tier keeps its blocks is neither run, followed, nor taken for one."""

import json
import os
import pickle
from pathlib import Path

import pytest

from kvtier.server.lasting.record import make_name
from kvtier.wire.namespaces import fingerprint

from .conftest import Serve
from .folding import listed
from .grounds import Directory, Ground
from .support import ANY_TIER, Serving, namespace, payloads

CHAIN = ("a", "b", "c")
NAME = make_name(b"f" * 32, 0, b"", b"hash of nobody", 77)
OTHER = namespace("planted")


class Shell:
    """Unpickling it makes a file."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.proof}",)


async def filled(serve: Serve, ground: Ground) -> Serving:
    """Start a node, and let it keep some blocks."""
    node = await serve(ground.tier())
    await node.store(*CHAIN, tier=ANY_TIER)
    return node


async def finds_its_own_only(node: Serving) -> None:
    """See that a node has its blocks and its namespace, and works."""
    assert [each.name for each in await node.client.list_namespaces()] == ["llama"]
    assert await node.load(*CHAIN, tier=ANY_TIER) == payloads(*CHAIN)
    assert len(await listed(node.client)) == len(CHAIN)
    await node.store("d", tier=ANY_TIER)
    assert await node.load("d", tier=ANY_TIER) == payloads("d")


def contents(proof: Path) -> dict[str, bytes]:
    """What somebody may plant, by what it is."""
    return {
        "a pickle": pickle.dumps(Shell(proof)),
        "deep JSON": b"[" * 100_000,
        "JSON": json.dumps({"blocks": {"a": 1}, "name": "planted"}).encode(),
        "much": bytes(2 << 20),
        "nothing": b"",
    }


@pytest.mark.parametrize("what", contents(Path()))
async def test_bytes_of_others_are_ignored_with_a_warning(
    serve: Serve,
    ground: Ground,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    what: str,
) -> None:
    """As a block, as a description and under names of no meaning, they cost nothing of the rest."""
    node = await filled(serve, ground)
    await node.server.drain_and_stop()
    data = contents(tmp_path / "run")[what]
    ground.plant(f"blocks/{NAME[:2]}/{NAME}", data)
    ground.plant(f"namespaces/{'ab' * 32}", data)
    odd = {"index.pickle", "metadata.json", "blocks/00/metadata", "namespaces/index"}
    for path in odd:
        ground.plant(path, data)
    capsys.readouterr()

    node = await node.again(serve, ground.tier())

    said = capsys.readouterr().out
    await finds_its_own_only(node)
    assert not (tmp_path / "run").exists()
    warnings = [line for line in said.splitlines() if "warning" in line]
    assert [line for line in warnings if NAME in line]
    assert [line for line in warnings if "namespace" in line]
    assert NAME not in ground.names(), "no block, and in the place of one"
    assert odd <= ground.paths()
    assert (await node.tier(ANY_TIER)).counters.corrupt == 1


async def test_links_are_not_followed(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To a block, a description and a directory that would be good ones; all of them stay."""
    ground = Directory(tmp_path / "blocks-of-a-node")
    node = await filled(serve, ground)
    await node.server.drain_and_stop()
    outside = tmp_path / "outside"
    outside.mkdir()
    name = make_name(node.namespace, 0, b"", b"another hash", 99)
    (outside / name).write_bytes(ground.read(min(ground.names())))
    (outside / "description").write_bytes(OTHER.SerializeToString())
    (ground.path / f"blocks/{name[:2]}").mkdir(exist_ok=True)
    (ground.path / f"blocks/{name[:2]}/{name}").symlink_to(outside / name)
    (ground.path / f"namespaces/{fingerprint(OTHER).hex()}").symlink_to(outside / "description")
    (ground.path / "index").symlink_to("/etc/passwd")
    (ground.path / "more").symlink_to(outside)
    before = ground.around()
    capsys.readouterr()

    node = await node.again(serve, ground.tier())

    said = capsys.readouterr().out
    await finds_its_own_only(node)
    assert "a namespace's description cannot be read" in said
    await node.client.clear(ANY_TIER, force=True)
    assert ground.around() == before


async def test_a_description_that_was_changed_keeps_its_name_from_nobody(
    serve: Serve, ground: Ground
) -> None:
    """Who describes the namespace again stores in it at once, and has all blocks after a start."""
    node = await filled(serve, ground)
    await node.server.drain_and_stop()
    changed = namespace(dtype="bfloat17")
    ground.plant(f"namespaces/{node.namespace.hex()}", changed.SerializeToString())
    node = await node.again(serve, ground.tier())
    assert await node.client.list_namespaces() == []
    assert await listed(node.client) == {}

    assert await node.client.register_namespace(namespace()) == node.namespace
    await node.store("d", tier=ANY_TIER)
    node = await node.again(serve, ground.tier())

    assert await node.load(*CHAIN, "d", tier=ANY_TIER) == payloads(*CHAIN, "d")
