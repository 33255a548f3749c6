"""No text of a request is part of a path, so none leads anywhere, and no two are taken for one."""

import re
import unicodedata
from contextlib import suppress

import pytest

from kvtier.client import InvalidArgumentError, NodeClient, NotFoundError
from kvtier.v1.block_pb2 import BlockRun, BlockSet

from .conftest import Serve
from .folding import listed
from .grounds import Directory, Ground
from .support import ANY_TIER, Serving, blocks_of, namespace, payload, run

ALIKE = [
    "org/model/name",
    "org-model-name",
    "org_model_name",
    "org--model--name",
    "org-SEP-model-SEP-name",
    "org%2Fmodel%2Fname",
    "org\\model\\name",
    "ORG/model/name",
    "org/model/name/",
    "org//model/name",
    "org/model/./name",
    "org/model/name ",
    unicodedata.normalize("NFC", "org/modèle/name"),
    unicodedata.normalize("NFD", "org/modèle/name"),
    "org/model/name" + "x" * 242,
    "org/model/name" + "x" * 241 + "y",
]
LEADING_OUT = [
    "../x",
    "../../canary",
    "../canary",
    "/etc/passwd",
    "a/b",
    "..",
    ".",
    "",
    "x\0y",
    "x\ny",
    "x" * 5000,
    "-rf",
    "~",
    "$(touch canary)",
    "con",
    "%2e%2e%2fcanary",
    "..\\canary",
]
ON_THE_GROUND = re.compile(
    "FORMAT|lock|OWNER|probe|namespaces/[0-9a-f]{64}"
    "|blocks/([0-9a-f]{2})/\\1[0-9a-f]{62}-[0-9a-f]{16}"
)


async def register(node: Serving, **fields: str) -> bytes | None:
    """Register a namespace; None when the node refuses its texts."""
    try:
        return await node.client.register_namespace(namespace(**fields))
    except InvalidArgumentError:
        return None


async def loaded(node: Serving, fingerprint: bytes) -> list[bytes | None]:
    """The bytes of the one block of a namespace."""
    report = await node.client.load(ANY_TIER, fingerprint, [blocks_of("H")])
    return list(report.payloads)


@pytest.mark.parametrize("field", ["name", "model"])
async def test_names_that_look_alike_have_blocks_of_their_own(
    serve: Serve, ground: Ground, field: str
) -> None:
    """The same hash under each, with other bytes, is read as it was, after a restart too."""
    node = await serve(ground.tier())
    kept: dict[bytes, bytes] = {}
    for place, text in enumerate(ALIKE):
        texts = {"name": text} if field == "name" else {"name": f"n{place}", "model": text}
        fingerprint = await register(node, **texts)
        assert fingerprint is not None
        kept[fingerprint] = payload(text)
        await node.client.store(ANY_TIER, fingerprint, [run("H")], [payload(text)])

    for _ in range(2):
        assert [await loaded(node, each) for each in kept] == [[data] for data in kept.values()]
        assert len(ground.names()) == len(ALIKE) == len(await listed(node.client))
        node = await node.again(serve, ground.tier())
    names = {getattr(each, field) for each in await node.client.list_namespaces()}
    assert names == set(ALIKE)


async def use(node: Serving, client: NodeClient, text: str) -> None:
    """Say a text in every field that takes one, and expect it to be refused or to be harmless."""
    refused, beginning = suppress(InvalidArgumentError), text.encode()[:32]
    chosen = BlockRun(block_hashes=beginning.ljust(32, b"."), adapter_name=text, scope=beginning)
    wanted = BlockSet(block_hashes=chosen.block_hashes, scope=chosen.scope)
    with refused:
        await client.store(ANY_TIER, node.namespace, [chosen], [payload(text)], request_id=text)
        report = await client.load(ANY_TIER, node.namespace, [wanted])
        assert list(report.payloads) == [payload(text)]
    for field in ("name", "model", "revision", "dtype", "layout", "hash_algorithm"):
        with refused:
            described = namespace(**{"name": f"{field} {len(text)} {text[:20]!r}", field: text})
            fingerprint = await client.register_namespace(described)
            await client.store(ANY_TIER, fingerprint, [run("H")], [payload(text)])
            assert await loaded(node, fingerprint) == [payload(text)]


async def ask(node: Serving, client: NodeClient, text: str) -> None:
    """Name a tier by a text; there is none."""
    for call in (
        client.clear(text),
        client.load(text, node.namespace, [blocks_of("H")]),
        client.prepare_store(text, node.namespace, [run("H")]),
    ):
        with pytest.raises((InvalidArgumentError, NotFoundError)):
            await call


@pytest.mark.parametrize("text", LEADING_OUT, ids=ascii)
async def test_no_text_leads_out_of_the_ground(serve: Serve, ground: Ground, text: str) -> None:
    """Refused, or kept and found again as it is; nothing else is read, written or removed."""
    if isinstance(ground, Directory):
        for canary in ("canary", "x", "y"):
            (ground.path.parent / canary).write_bytes(b"canary")
    node = await serve(ground.tier())
    before = ground.around()

    await use(node, node.client, text)
    await ask(node, node.client, text)
    shown = await listed(node.client)
    node = await node.again(serve, ground.tier())

    assert ground.around() == before
    assert not [path for path in ground.paths() if not ON_THE_GROUND.fullmatch(path)]
    assert await listed(node.client) == shown
    await node.client.clear(ANY_TIER)
    for described in await node.client.list_namespaces():
        await node.client.lookup(await node.client.register_namespace(described), [blocks_of("H")])
    assert ground.names() == set()
    assert ground.around() == before
