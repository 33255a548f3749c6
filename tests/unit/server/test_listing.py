"""Listing blocks page by page, while the tiers change."""

import asyncio
import random

import pytest

from kvtier.server.operations.listing import list_blocks
from kvtier.v1.listing_pb2 import DescribeBlockRequest, ListBlocksRequest, ListBlocksResponse
from kvtier.v1.removal_pb2 import DeleteBlocksRequest
from kvtier.wire.errors import KvtierError, Reason
from tests.contract.support import block_hash, cpu_tier, hash_set, namespace, payload, run

from .conftest import MakeNode
from .support import LocalNode, at_once


async def page_of(node: LocalNode, token: bytes = b"", size: int = 2) -> ListBlocksResponse:
    """Return one page of all blocks."""
    return await list_blocks(node.node, ListBlocksRequest(page_size=size, page_token=token))


async def all_pages(node: LocalNode, **wanted: object) -> list[bytes]:
    """Return the hashes of a whole listing, in its order."""
    request = ListBlocksRequest(**wanted)  # type: ignore[arg-type]
    found: list[bytes] = []
    while True:
        page = await list_blocks(node.node, request)
        found += [block.block_hash for block in page.blocks]
        request.page_token = page.next_page_token
        if not request.page_token:
            return found


def delete(node: LocalNode, *blocks: object) -> None:
    """Delete blocks from every tier."""
    at_once(
        node.tiers.delete_blocks(
            DeleteBlocksRequest(namespace=node.namespace, blocks=node.blocks(*blocks))
        )
    )


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 0])
async def test_pages_of_any_size_show_each_block_once(node: LocalNode, size: int) -> None:
    """A listing is the same however it is cut."""
    node.store("a", "b", "c", "d")

    found = await all_pages(node, page_size=size)

    assert sorted(found) == sorted(hash_set("abcd"))


async def test_a_page_has_at_most_as_many_blocks_as_asked_for(make_node: MakeNode) -> None:
    """No page size means 1,000, and no page has more than 5,000."""
    node = make_node(cpu_tier(6000))
    node.store(*range(6000))

    sizes = [len((await page_of(node, size=size)).blocks) for size in (7, 0, 100_000)]

    assert sizes == [7, 1000, 5000]


async def test_blocks_that_stay_are_listed_once_whatever_happens_meanwhile(
    make_node: MakeNode,
) -> None:
    """Stores, deletes and stores anew between two pages show no block twice and lose none."""
    node, rng = make_node(cpu_tier(64)), random.Random(1)
    stays, comes_and_goes = [f"s{i}" for i in range(20)], [f"g{i}" for i in range(20)]
    for block in (*stays, *comes_and_goes):
        node.store(block)
    found: list[bytes] = []
    token, page = b"", None
    while page is None or token:
        page = await page_of(node, token, size=3)
        found += [block.block_hash for block in page.blocks]
        token = page.next_page_token
        for block in rng.sample(comes_and_goes, 5):
            delete(node, block)
            node.store(block)

    assert len(found) == len(set(found))
    assert hash_set(stays) <= set(found)
    assert set(found) <= hash_set([*stays, *comes_and_goes])


async def test_a_block_stored_after_the_first_page_is_not_listed(node: LocalNode) -> None:
    """A listing does not run after a tier that fills."""
    node.store("a", "b")
    page = await page_of(node, size=1)

    node.store("c")
    rest = await page_of(node, page.next_page_token, size=4)

    assert block_hash("c") not in {block.block_hash for block in rest.blocks}
    assert rest.next_page_token == b""


async def test_filters_show_what_they_name(make_node: MakeNode) -> None:
    """Tier, namespace, group and scope each narrow a listing, alone and together."""
    node = make_node(cpu_tier(8), cpu_tier(8, name="cpu1"))
    node.store("plain")
    node.store("group", group=1)
    node.store("scoped", scope=b"tenant")
    node.store("both", group=1, scope=b"tenant")
    first = node.namespace
    node.namespace = node.node.register(namespace("other")).fingerprint
    node.store("other")

    assert set(await all_pages(node, tiers=["cpu1"])) == set()
    assert set(await all_pages(node, namespace=first, group=1)) == hash_set(["group", "both"])
    assert set(await all_pages(node, scope=b"tenant")) == hash_set(["scoped", "both"])
    assert set(await all_pages(node, namespace=node.namespace)) == hash_set(["other"])
    assert set(await all_pages(node, group=0, scope=b"")) == hash_set(["plain", "other"])


async def test_a_token_serves_its_own_filter(node: LocalNode) -> None:
    """A token of another filter is refused; another page size is no other filter."""
    node.store("a", "b", "c")
    token = (await page_of(node, size=1)).next_page_token

    with pytest.raises(KvtierError) as error:
        await list_blocks(node.node, ListBlocksRequest(group=0, page_token=token))

    assert error.value.code.name == "INVALID_ARGUMENT"
    assert error.value.reason == Reason.PAGE_TOKEN_INVALID
    assert len((await page_of(node, token, size=5)).blocks) == 2


async def test_a_token_serves_one_life_of_a_node(make_node: MakeNode) -> None:
    """After a restart a listing starts over."""
    node = make_node()
    node.store("a", "b")
    token = (await page_of(node, size=1)).next_page_token
    node.node.incarnation += 1

    with pytest.raises(KvtierError, match="start the listing over") as error:
        await page_of(node, token)

    assert error.value.reason == Reason.PAGE_TOKEN_INVALID


async def test_a_damaged_token_is_refused_or_harmless(node: LocalNode) -> None:
    """No bytes in place of a token make a listing fail in another way, or show a block twice."""
    node.store("a", "b", "c")
    token, rng = (await page_of(node, size=1)).next_page_token, random.Random(2)
    damaged = [rng.randbytes(rng.randrange(1, 60)) for _ in range(50)]
    for _ in range(300):
        changed = bytearray(token)
        changed[rng.randrange(len(token))] ^= 1 << rng.randrange(8)
        damaged.append(bytes(changed))

    for wrong in damaged:
        try:
            page = await page_of(node, wrong, size=5)
        except KvtierError as error:
            assert error.reason == Reason.PAGE_TOKEN_INVALID  # noqa: PT017 - either is right
        else:
            hashes = [block.block_hash for block in page.blocks]
            assert len(hashes) == len(set(hashes))


async def test_a_long_listing_lets_others_run(make_node: MakeNode) -> None:
    """A page of thousands of blocks gives the loop back in between."""
    node = make_node(cpu_tier(5000))
    node.store(*range(5000))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await page_of(node, size=5000)
    counting.cancel()

    assert turns >= 20


async def test_a_block_being_written_is_described_but_not_listed(node: LocalNode) -> None:
    """Its lease is shown before there is a copy, and the copy once it is readable."""
    lease, _ = node.prepare(run("a"))
    request = DescribeBlockRequest(namespace=node.namespace, block_hash=block_hash("a"))

    while_written = node.tiers.describe_block(request)
    assert await all_pages(node) == []
    node.fill(lease, ["a"])
    node.complete(lease)
    after = node.tiers.describe_block(request)

    assert [(each.owner, each.remaining.seconds) for each in while_written.leases] == [
        ("engine", 30)
    ]
    assert list(while_written.copies) == []
    assert list(after.leases) == []
    assert [copy.size_bytes for copy in after.copies] == [len(payload("a"))]
