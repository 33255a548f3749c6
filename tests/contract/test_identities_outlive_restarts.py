"""What keeps blocks of one hash apart is kept with them: in files, in objects, over restarts."""

import pytest

from kvtier.client import FailedPreconditionError, NotFoundError
from kvtier.v1.result_pb2 import DeleteResult, StoreOutcome
from kvtier.wire.namespaces import describe
from tests.waiting import until

from .conftest import Follow, Serve
from .folding import listed
from .grounds import Ground
from .identities import IDENTITIES, Identity
from .support import (
    ANY_TIER,
    BLOCK_BYTES,
    Serving,
    cpu_tier,
    namespace,
    payload,
    payloads,
    run,
    words,
)
from .test_a_hash_stands_for_one_content import CLASHES, Clash, bytes_of_h, hold
from .test_hashes_come_back_exact import WIDTHS, awkward_hashes, chain_of, payloads_of, sets_of
from .ways import store_in_one_call

Three = tuple[Identity, Identity, Identity]
CPU = "cpu0"
each_kind = pytest.mark.parametrize("three", IDENTITIES.values(), ids=IDENTITIES)


async def keep(node: Serving, three: Three, tier: str = ANY_TIER) -> None:
    """Store under the first two identities, and wait until that is written through."""
    for each in three[:2]:
        await each.store(node.client, tier, store_in_one_call)
    await until(lambda: not node.node.tiering.jobs)


async def brought_up(node: Serving, each: Identity) -> bytes | None:
    """Load an identity's block from memory, promoted first."""
    fingerprint = await each.register(node.client)
    answer = await node.client.prepare_load(
        CPU, fingerprint, [each.blocks], promote=True, wait=True
    )
    read = await node.client.read_blocks(answer.lease, [BLOCK_BYTES])
    await node.client.complete_load(answer.lease)
    return read.payloads[0]


@each_kind
async def test_each_finds_its_own_bytes_after_a_restart(
    serve: Serve, follow: Follow, ground: Ground, three: Three
) -> None:
    """A third finds none; listings and followers name the adapter, the group and the scope."""
    node = await serve(ground.tier())
    await keep(node, three)
    before = await listed(node.client)

    node = await node.again(serve, ground.tier())
    follower = await follow(node)

    assert follower.fold.view == await listed(node.client) == before
    assert [await each.look_up(node.client) for each in three] == ["HIT", "HIT", "MISS"]
    loaded = [await each.load(node.client, ANY_TIER) for each in three]
    assert loaded == [three[0].payload, three[1].payload, None]
    keys = [await each.key(node.client, ANY_TIER) for each in three[:2]]
    assert [before[key].adapter_name for key in keys] == [each.adapter for each in three[:2]]
    assert len(ground.names()) == 2


@each_kind
async def test_each_comes_up_under_its_own_identity(
    serve: Serve, ground: Ground, three: Three
) -> None:
    """Written through and promoted after a restart, a block is never another's on the way."""
    tiers = [cpu_tier(4, write_through=[ANY_TIER], promotion_limit=1), ground.tier()]
    node = await serve(*tiers)
    await keep(node, three, CPU)
    node = await node.again(serve, *tiers)

    loaded = [await brought_up(node, each) for each in three]

    assert loaded == [three[0].payload, three[1].payload, None]
    assert len(await node.held(CPU)) == 1, "both have the same hash"
    assert len(await listed(node.client, CPU)) == 2


@each_kind
async def test_one_is_removed_and_the_other_found_again(
    serve: Serve, ground: Ground, three: Three
) -> None:
    """A delete under one identity costs no other its block, in this life and the next."""
    node = await serve(ground.tier())
    await keep(node, three)
    one, two, third = three

    results = []
    for each in (third, one):
        answer = await node.client.delete(await each.register(node.client), [each.blocks])
        results += words(DeleteResult, answer.tiers[0].results)
    node = await node.again(serve, ground.tier())

    assert results == ["NOT_FOUND", "DELETED"]
    assert await one.load(node.client, ANY_TIER) is None
    assert await two.load(node.client, ANY_TIER) == two.payload
    assert len(ground.names()) == 1


@pytest.mark.parametrize("width", WIDTHS)
async def test_hashes_that_are_alike_are_exact_after_a_restart(
    serve: Serve, follow: Follow, ground: Ground, width: int
) -> None:
    """Those that share their first or last bytes stay two, with their parents and their bytes."""
    hashes = awkward_hashes(width)
    node = await serve(ground.tier())
    described = namespace(f"width {width}", hash_width=width)
    fingerprint = await node.client.register_namespace(described)
    await store_in_one_call(
        node.client, ANY_TIER, fingerprint, [chain_of(hashes)], payloads_of(hashes)
    )
    before = await listed(node.client)

    node = await node.again(serve, ground.tier())

    assert {key.block_hash for key in before} == set(hashes)
    assert (await follow(node)).fold.view == await listed(node.client) == before
    read = await node.client.load(ANY_TIER, fingerprint, sets_of(hashes[::-1]))
    assert list(read.payloads) == payloads_of(hashes[::-1])
    for gone in hashes[::2]:
        await node.client.delete(fingerprint, sets_of([gone]))
    rest = await node.client.load(ANY_TIER, fingerprint, sets_of(hashes[1::2]))
    assert list(rest.payloads) == payloads_of(hashes[1::2])


@pytest.mark.parametrize("clash", CLASHES.values(), ids=CLASHES)
async def test_another_content_is_a_mismatch_after_a_restart_too(
    serve: Serve, ground: Ground, clash: Clash
) -> None:
    """Parent, position and tokens of the first are remembered; it stays as it was."""
    node = await serve(ground.tier())
    fingerprint = await hold(node, clash.first)
    node = await node.again(serve, ground.tier())
    before = await listed(node.client)

    report = await store_in_one_call(
        node.client, ANY_TIER, fingerprint, [clash.second], [payload("another content")]
    )

    assert words(StoreOutcome, report.outcomes) == ["MISMATCH"]
    assert (await node.tier(ANY_TIER)).counters.mismatched == 1
    assert await listed(node.client) == before
    assert await bytes_of_h(node, fingerprint) == payload("H")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dtype", "fp8_e4m3"),
        ("revision", "r2"),
        ("tokens_per_block", 64),
        ("tp_size", 2),
        ("block_bytes", [BLOCK_BYTES]),
        ("hash_width", 16),
    ],
)
async def test_a_name_keeps_its_description_over_a_restart(
    serve: Serve, ground: Ground, field: str, value: object
) -> None:
    """Described otherwise it is refused, naming both values; another name finds nothing."""
    node = await serve(ground.tier())
    await node.store("a", tier=ANY_TIER)
    node = await node.again(serve, ground.tier())
    other = namespace("llama", **{field: value})

    with pytest.raises(FailedPreconditionError) as refused:
        await node.client.register_namespace(other)
    other.name = "another"
    fingerprint = await node.client.register_namespace(other)

    for each in (namespace(), other):
        shown = describe(each)[field]
        assert str(shown) in str(refused.value)
    listing = [each async for each in node.client.list_blocks(namespace=fingerprint)]
    assert listing == []
    assert await node.load("a", tier=ANY_TIER) == payloads("a")


async def test_a_deleted_namespace_stays_away(serve: Serve, ground: Ground) -> None:
    """With its blocks and its description; the name may then stand for something else."""
    node = await serve(ground.tier())
    await node.store("a", tier=ANY_TIER)
    await node.client.delete_namespace(node.namespace)

    node = await node.again(serve, ground.tier())

    assert ground.names() == set()
    assert await node.client.list_namespaces() == []
    with pytest.raises(NotFoundError):
        await node.client.lookup(node.namespace, [three.blocks for three in (Identity("x"),)])
    other = await node.client.register_namespace(namespace("llama", dtype="fp8_e4m3"))
    await node.client.store(ANY_TIER, other, [run("a")], payloads("a"))
    assert len(ground.names()) == 1
