"""Another content under a known hash is refused, and the first stays as it was."""

from typing import NamedTuple

import pytest

from kvtier.client import InvalidArgumentError
from kvtier.v1.block_pb2 import BlockRun
from kvtier.v1.result_pb2 import LookupResult, StoreOutcome, WriteResult

from .conftest import Follow, Serve
from .folding import listed
from .support import (
    ANY_TIER,
    BLOCK_BYTES,
    TOKENS,
    MakeTier,
    Serving,
    block_hash,
    blocks_of,
    namespace,
    payload,
    payloads,
    run,
    words,
)
from .ways import Store, store_in_one_call

KEPT = namespace("with tokens", keep_token_ids=True)
TOKENS_1, TOKENS_2 = range(TOKENS), range(1, TOKENS + 1)


class Clash(NamedTuple):
    """What H is stored as, and what it is offered as later."""

    first: BlockRun
    second: BlockRun


CLASHES = {
    "another parent": Clash(run("H", after="P"), run("H", after="Q")),
    "another position": Clash(run("H", after="P"), run("H", after="P", start=2 * TOKENS)),
    "no parent": Clash(run("H", after="P"), run("H")),
    "a parent": Clash(run("H"), run("H", after="P")),
    "other tokens": Clash(run("H", token_ids=TOKENS_1), run("H", token_ids=TOKENS_2)),
    "other tokens, later in the chain": Clash(
        run("H", after="P", token_ids=TOKENS_1), run("H", after="P", token_ids=TOKENS_2)
    ),
}
SAME = {
    "other bytes": Clash(run("H"), run("H")),
    "another adapter's name": Clash(run("H", adapter_name="a"), run("H", adapter_name="b")),
    "tokens not told again": Clash(run("H", token_ids=TOKENS_1), run("H")),
    "tokens told later": Clash(run("H"), run("H", token_ids=TOKENS_1)),
}
each_clash = pytest.mark.parametrize("clash", CLASHES.values(), ids=CLASHES)


async def hold(node: Serving, first: BlockRun) -> bytes:
    """Store H, with the payload of H, in a namespace that keeps tokens."""
    fingerprint = await node.client.register_namespace(KEPT)
    await node.client.store(ANY_TIER, fingerprint, [first], [payload("H")])
    return fingerprint


async def bytes_of_h(node: Serving, fingerprint: bytes) -> bytes | None:
    return (await node.client.load(ANY_TIER, fingerprint, [blocks_of("H")])).payloads[0]


@each_clash
async def test_another_content_is_a_mismatch_and_changes_nothing(
    serve: Serve, follow: Follow, any_tier: MakeTier, store: Store, clash: Clash
) -> None:
    """The offer is told so and counted; bytes, listing and events stay as they were."""
    node = await serve(any_tier(4))
    fingerprint = await hold(node, clash.first)
    follower = await follow(node)
    before = await listed(node.client)

    report = await store(
        node.client, ANY_TIER, fingerprint, [clash.second], [payload("another content")]
    )

    assert words(StoreOutcome, report.outcomes) == ["MISMATCH"]
    assert words(WriteResult, report.results) == ["UNSPECIFIED"]
    assert (await node.tier(ANY_TIER)).counters.mismatched == 1
    assert await follower.news() == []
    assert await listed(node.client) == before
    assert await bytes_of_h(node, fingerprint) == payload("H")


@pytest.mark.parametrize("same", SAME.values(), ids=SAME)
async def test_what_cannot_be_told_apart_is_present(
    serve: Serve, any_tier: MakeTier, store: Store, same: Clash
) -> None:
    """A hash in its place is the block that is there, and its first bytes stay."""
    node = await serve(any_tier(4))
    fingerprint = await hold(node, same.first)

    report = await store(
        node.client, ANY_TIER, fingerprint, [same.second], [payload("other bytes")]
    )

    assert words(StoreOutcome, report.outcomes) == ["PRESENT"]
    assert (await node.tier(ANY_TIER)).counters.mismatched == 0
    assert await bytes_of_h(node, fingerprint) == payload("H")


@each_clash
async def test_a_block_that_is_being_written_is_guarded_too(
    serve: Serve, any_tier: MakeTier, store: Store, clash: Clash
) -> None:
    """The mismatch is told while the first content is on its way, which then arrives."""
    node = await serve(any_tier(4))
    fingerprint = await node.client.register_namespace(KEPT)
    writer = await node.client.prepare_store(ANY_TIER, fingerprint, [clash.first])

    report = await store(
        node.client, ANY_TIER, fingerprint, [clash.second], [payload("another content")]
    )
    await node.client.write_blocks(writer.lease, {0: payload("H")}, [BLOCK_BYTES])
    await node.client.complete_store(writer.lease)

    assert words(StoreOutcome, report.outcomes) == ["MISMATCH"]
    assert await bytes_of_h(node, fingerprint) == payload("H")


async def test_a_mismatch_is_no_use_of_the_block(serve: Serve, any_tier: MakeTier) -> None:
    """Who offers another content under an old block's hash does not keep the block alive."""
    node = await serve(any_tier(2))
    for block in ("H", "newer"):
        await node.store(block, tier=ANY_TIER)

    await store_in_one_call(
        node.client, ANY_TIER, node.namespace, [run("H", after="Q")], payloads("H")
    )
    await node.store("pressure", tier=ANY_TIER)

    assert await node.look_up("H", "newer", "pressure") == ["MISS", "HIT", "HIT"]


async def test_after_it_is_gone_the_hash_may_stand_for_something_else(
    serve: Serve, any_tier: MakeTier, store: Store
) -> None:
    """Nothing of the first content lives on once the block was removed."""
    node = await serve(any_tier(2))
    await node.store("H", tier=ANY_TIER)
    await node.client.delete(node.namespace, [blocks_of("H")])

    report = await store(
        node.client, ANY_TIER, node.namespace, [run("H", after="Q")], [payload("second")]
    )

    assert words(WriteResult, report.results) == ["STORED"]
    assert await node.load("H", tier=ANY_TIER) == [payload("second")]


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES + 1])
async def test_a_payload_of_another_size_is_refused(
    serve: Serve, any_tier: MakeTier, size: int
) -> None:
    """The refusal names both sizes; the block that is there stays, an absent one stays absent."""
    node = await serve(any_tier(4))
    await node.store("H", tier=ANY_TIER)

    with pytest.raises(InvalidArgumentError, match=f"{size} bytes.*{BLOCK_BYTES}"):
        await store_in_one_call(
            node.client, ANY_TIER, node.namespace, [run("H", "new")], [payload("H"), bytes(size)]
        )

    answer = await node.client.prepare_load(ANY_TIER, node.namespace, [blocks_of("H", "new")])
    assert words(LookupResult, answer.results) == ["HIT", "MISS"]
    assert await node.held(ANY_TIER) == {block_hash("H")}
    assert await node.load("H", tier=ANY_TIER) == payloads("H")
