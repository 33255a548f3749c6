"""A hash is opaque bytes of the namespace's width: nothing cuts, signs, reverses or merges it."""

import asyncio
import json
import random
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from kvtier.v1.block_pb2 import BlockRun, BlockSet
from kvtier.v1.result_pb2 import LookupResult
from kvtier.wire.hashes import split_hashes

from .conftest import Follow, Serve
from .folding import listed
from .support import BLOCK_BYTES, cpu_tier, namespace, payload, words
from .viewing import proxying
from .ways import Store

WIDTHS = (8, 9, 16, 32, 64)


def awkward_hashes(width: int) -> list[bytes]:
    """Hashes that are alike in most of their bytes, or look like something else."""
    chance = random.Random(width)
    one, half = chance.randbytes(width), width // 2
    return [
        one,
        one[::-1],
        one[:half] + chance.randbytes(width - half),
        chance.randbytes(width - half) + one[-half:],
        one[:-1] + bytes([one[-1] ^ 1]),
        bytes([one[0] ^ 0x80]) + one[1:],
        bytes(width),
        b"\xff" * width,
        b"\x80" + bytes(width - 1),
        bytes(width - 1) + b"\x80",
        b"\x7f" + b"\xff" * (width - 1),
        b"a" * width,
        b"\n" * width,
        b"/" * width,
        b"\xc3\x28" * half + b"x" * (width % 2),
    ]


def chain_of(hashes: Sequence[bytes]) -> BlockRun:
    return BlockRun(block_hashes=b"".join(hashes))


def sets_of(hashes: Sequence[bytes]) -> list[BlockSet]:
    return [BlockSet(block_hashes=b"".join(hashes))]


def payloads_of(hashes: Sequence[bytes]) -> list[bytes]:
    return [payload(each) for each in hashes]


def parents(hashes: Sequence[bytes]) -> Iterator[bytes]:
    yield from (b"", *hashes[:-1])


@pytest.mark.parametrize("width", WIDTHS)
async def test_every_answer_and_event_has_the_very_bytes(
    serve: Serve, follow: Follow, store: Store, width: int
) -> None:
    """Listing, description, live and late followers, parents too; each block keeps its payload."""
    hashes = awkward_hashes(width)
    node = await serve(cpu_tier(len(hashes)))
    described = namespace(f"width {width}", hash_width=width)
    fingerprint = await node.client.register_namespace(described)
    live = await follow(node)

    await store(node.client, "cpu0", fingerprint, [chain_of(hashes)], payloads_of(hashes))
    await live.settle()
    late = await follow(node)
    read = await node.client.load("cpu0", fingerprint, sets_of(hashes[::-1]))
    found = await node.client.lookup(fingerprint, sets_of(hashes), include_blocks=True)
    copies = [
        (await node.client.describe_block(fingerprint, 0, b"", each)).copies[0] for each in hashes
    ]

    shown = await listed(node.client)
    assert {key.block_hash for key in shown} == set(hashes)
    assert live.fold.view == late.fold.view == shown
    told_parents = [(copy.block_hash, copy.parent_block_hash) for copy in copies]
    assert told_parents == list(zip(hashes, parents(hashes), strict=True))
    assert {(key.block_hash, facts.parent_block_hash) for key, facts in shown.items()} == set(
        told_parents
    )
    assert list(read.payloads) == payloads_of(hashes[::-1])
    assert words(LookupResult, found.chains[0].results) == ["HIT"] * len(hashes)


@pytest.mark.parametrize("width", WIDTHS)
async def test_a_removal_names_the_very_block(
    serve: Serve, follow: Follow, store: Store, width: int
) -> None:
    """Deleted or evicted one by one, each hash is named exactly, and its look-alikes stay."""
    hashes = awkward_hashes(width)
    half = len(hashes) // 2
    node = await serve(cpu_tier(len(hashes)))
    described = namespace(f"width {width}", hash_width=width)
    fingerprint = await node.client.register_namespace(described)
    await store(node.client, "cpu0", fingerprint, [chain_of(hashes)], payloads_of(hashes))
    follower = await follow(node)

    for each in hashes[:half]:
        await node.client.delete(fingerprint, sets_of([each]))
    deleted = [each.block_hash for each in await follower.news()]
    rest = await node.client.load("cpu0", fingerprint, sets_of(hashes[half:]))
    others = [random.Random(n).randbytes(width) for n in range(len(hashes))]
    answer = await node.client.prepare_store("cpu0", fingerprint, [chain_of(others)])
    evicted = [each.block_hash for each in await follower.news()]

    assert deleted == hashes[:half]
    assert list(rest.payloads) == payloads_of(hashes[half:])
    assert evicted == hashes[half:][::-1], "the tail of the chain first"
    named = b"".join(each.blocks.block_hashes for each in answer.evicted)
    assert list(split_hashes(named, width)) == evicted


@pytest.mark.parametrize("width", WIDTHS)
async def test_a_proxy_tells_look_alikes_apart(serve: Serve, width: int) -> None:
    """Every second one is on the primary, the others on the secondary, and each is found there."""
    hashes = awkward_hashes(width)
    nodes = [await serve(cpu_tier(len(hashes))) for _ in range(2)]
    described = namespace(f"width {width}", hash_width=width)
    for place, node in enumerate(nodes):
        fingerprint = await node.client.register_namespace(described)
        for each in hashes[place::2]:
            await node.client.store("cpu0", fingerprint, [chain_of([each])], [payload(each)])

    async with proxying(nodes[0].client, [nodes[1].client]) as (proxy, view):
        for node in nodes:
            await view.settle(node.client)
        (answer,) = await proxy.lookup(fingerprint, sets_of(hashes))
        ids = [(await node.client.get_node()).node_id for node in nodes]
        seen = [{key.block_hash for key in view.index.blocks(each, "cpu0")} for each in ids]

    assert answer.sources == tuple(place % 2 for place in range(len(hashes)))
    assert seen == [set(hashes[0::2]), set(hashes[1::2])]


async def kvtier(*arguments: str) -> Any:
    """Run the command line, and return what it printed as JSON."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kvtier.cli", *arguments, "-o", "json", stdout=PIPE, stderr=PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return json.loads(out)


@pytest.mark.parametrize("width", [8, 32])
async def test_the_command_line_shows_and_takes_every_hash(serve: Serve, width: int) -> None:
    """Listed in hexadecimal they are the same set, and a lookup by those finds every one."""
    hashes = awkward_hashes(width)
    node = await serve(cpu_tier(len(hashes)))
    fingerprint = await node.client.register_namespace(namespace("wide", hash_width=width))
    await node.client.store("cpu0", fingerprint, [chain_of(hashes)], payloads_of(hashes))

    shown, found = await asyncio.gather(
        kvtier("get", "blocks", "-e", node.endpoint),
        kvtier("lookup", *(h.hex() for h in hashes), "-n", "wide", "-e", node.endpoint),
    )

    assert [bytes.fromhex(each["block_hash"]) for each in shown] == hashes
    assert {each["size_bytes"] for each in shown} == {BLOCK_BYTES}
    assert [each["union_prefix_length"] for each in found] == [len(hashes)]
