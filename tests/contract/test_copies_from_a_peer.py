"""Blocks that a node pulls from another node."""

import asyncio

import pytest

from kvtier.client import InvalidArgumentError, NotFoundError
from kvtier.wire.namespaces import fingerprint as fingerprint_of
from tests.waiting import until

from .conftest import Follow, Serve
from .copying import copy_blocks, nothing_is_held, spoil
from .fake_peer import FakePeer, Send, faking, message
from .folding import Facts, listed
from .gates import LARGE
from .support import (
    BLOCK_BYTES,
    TOKENS,
    Serving,
    block_hash,
    blocks_of,
    cpu_tier,
    gpu_tier,
    hash_set,
    namespace,
    payload,
    payloads,
    run,
)


@pytest.fixture(name="peer")
async def _peer(serve: Serve) -> Serving:
    """A node to pull from."""
    return await serve(gpu_tier(16), cpu_tier(16))


@pytest.fixture(name="node")
async def _node(serve: Serve, peer: Serving) -> Serving:
    """A node that may pull from the other, with tiers of eight blocks."""
    return await serve(gpu_tier(8), cpu_tier(8), peers=[peer.endpoint], peer_timeout=1)


async def test_a_pulled_block_is_readable_here_and_there(node: Serving, peer: Serving) -> None:
    """What the peer has loads byte for byte here, and the peer keeps it, unpinned."""
    await peer.store(1, 2, 3)

    copied = await copy_blocks(node, run(1, 2, 3), peer=(peer.endpoint, "cpu0"), to="gpu0")

    assert copied.results == ["COPIED"] * 3
    assert copied.bytes == 3 * BLOCK_BYTES
    assert await node.load(1, 2, 3, tier="gpu0") == payloads(1, 2, 3)
    assert await peer.load(1, 2, 3) == payloads(1, 2, 3)
    assert (await node.held("cpu0"), await peer.held("gpu0")) == (set(), set())
    nothing_is_held(node)
    nothing_is_held(peer)


async def test_only_the_tier_that_took_a_block_tells_of_it(
    node: Serving, peer: Serving, follow: Follow
) -> None:
    """One store for each block, with the parent, position, adapter and tokens of the request."""
    full = namespace("full", keep_token_ids=True)
    fingerprint = fingerprint_of(full)
    for each in (node, peer):
        await each.client.register_namespace(full)
    offer = run("child", "grandchild", after="root", adapter_name="poet", scope=b"tenant")
    offer.token_ids.extend(range(2 * TOKENS))
    await peer.client.store("cpu0", fingerprint, [offer], payloads("child", "grandchild"))
    follower, there = await follow(node), await follow(peer)

    pulled = Serving(node.server, node.client, node.clock, fingerprint)
    copied = await copy_blocks(pulled, offer, peer=(peer.endpoint, "cpu0"), to="cpu0")

    assert copied.results == ["COPIED"] * 2
    told = [(each.what, each.tier, each.block_hash) for each in await follower.news()]
    assert told == [("stored", "cpu0", block_hash(b)) for b in ("child", "grandchild")]
    assert await there.news() == []
    assert list(follower.fold.view.values()) == [
        Facts(block_hash("root"), TOKENS, "poet"),
        Facts(block_hash("child"), 2 * TOKENS, "poet"),
    ]
    assert await listed(node.client) == await listed(peer.client)
    described = await node.client.describe_block(fingerprint, 0, b"tenant", block_hash("child"))
    assert [copy.adapter_name for copy in described.copies] == ["poet"]


async def test_every_block_has_a_result_of_its_own(node: Serving, peer: Serving) -> None:
    """A block that is missing, corrupt or in the way does not touch those around it."""
    await peer.store("good", "bad", "there", "pending", "other", "last")
    await node.store("there")
    await node.store("other")
    held = await node.client.prepare_store("cpu0", node.namespace, [run("pending", start=0)])
    spoil(peer, "bad", "cpu0")

    chain = run("good", "bad", "absent", "pending", "other", "last")
    copied = await copy_blocks(node, chain, run("there"), peer=(peer.endpoint, "cpu0"), to="cpu0")

    assert copied.results == [
        *("COPIED", "CORRUPT", "MISS", "MISMATCH", "MISMATCH", "COPIED"),
        "PRESENT",
    ]
    assert await node.load("good", "last") == payloads("good", "last")
    await node.client.complete_store(held.lease, failed=True)
    nothing_is_held(node)
    nothing_is_held(peer)


async def test_a_block_that_somebody_writes_is_pending(node: Serving, peer: Serving) -> None:
    """A store under way is neither waited for nor disturbed."""
    await peer.store(1)
    held = await node.client.prepare_store("cpu0", node.namespace, [run(1)])

    copied = await copy_blocks(node, run(1), peer=(peer.endpoint, "cpu0"), to="cpu0")

    assert copied.results == ["PENDING"]
    await node.client.write_blocks(held.lease, {0: payload(1)}, [BLOCK_BYTES])
    await node.client.complete_store(held.lease)
    assert await node.load(1) == payloads(1)


async def test_one_unreadable_block_costs_only_itself(
    node: Serving, peer: Serving, follow: Follow
) -> None:
    """The good blocks around a bad one arrive exact; the peer drops the bad one and says so."""
    await peer.store("a", "b", "c")
    spoil(peer, "b", "cpu0")
    here, there = await follow(node), await follow(peer)

    copied = await copy_blocks(node, run("a", "b", "c"), peer=(peer.endpoint, "cpu0"), to="cpu0")
    again = await copy_blocks(node, run("b"), peer=(peer.endpoint, "cpu0"), to="cpu0")

    assert (copied.results, again.results) == (["COPIED", "CORRUPT", "COPIED"], ["MISS"])
    assert await node.load("a", "b", "c") == [payload("a"), None, payload("c")]
    assert {each.block_hash for each in await here.news()} == hash_set(["a", "c"])
    assert [each[1:] for each in await there.news()] == [
        ("removed", "cpu0", block_hash("b"), "CORRUPT")
    ]


async def test_bytes_damaged_on_the_way_are_never_seen(serve: Serve, follow: Follow) -> None:
    """What does not match the checksum that came with it is CORRUPT here, and not announced."""

    async def damaged(_hashes: list[bytes], send: Send) -> None:
        whole = message(0, *payloads(1, 2, 3))
        data = bytearray(whole.data)
        data[BLOCK_BYTES] ^= 1
        whole.data = bytes(data)
        await send(whole)

    async with faking(damaged) as fake:
        node = await serve(cpu_tier(32), peers=[fake.endpoint])
        follower = await follow(node)

        copied = await copy_blocks(node, run(1, 2, 3), peer=(fake.endpoint, "cpu0"), to="cpu0")

        assert copied.results == ["COPIED", "CORRUPT", "COPIED"]
        assert {each.block_hash for each in await follower.news()} == hash_set([1, 3])
        assert (await node.tier()).counters.copies_failed == 1
        nothing_is_held(node)


async def test_a_namespace_that_differs_is_never_merged(node: Serving, peer: Serving) -> None:
    """A description that differs is another namespace, of which the peer has no blocks."""
    await peer.store(1)
    other = namespace(revision="r2")
    fingerprint = await node.client.register_namespace(namespace("other", revision="r2"))
    assert fingerprint_of(other) != node.namespace

    unknown = Serving(node.server, node.client, node.clock, fingerprint)
    copied = await copy_blocks(unknown, run(1, "x"), peer=(peer.endpoint, "cpu0"), to="cpu0")

    assert copied.results == ["MISS", "MISS"]
    assert await node.held() == set()
    nothing_is_held(node)


async def test_a_duplicate_is_pulled_once_and_answered_twice(node: Serving, peer: Serving) -> None:
    """A block named twice, in one run or in two, is one transfer."""
    await peer.store(1, 2)

    copied = await copy_blocks(
        node, run(1, 2), run(1, 1, "absent"), peer=(peer.endpoint, "cpu0"), to="cpu0"
    )

    assert copied.results == ["COPIED", "COPIED", "COPIED", "COPIED", "MISS"]
    assert copied.bytes == 2 * BLOCK_BYTES
    assert (await node.tier()).counters.stored == 2


async def test_blocks_of_several_groups_and_scopes_come_in_one_call(
    node: Serving, peer: Serving
) -> None:
    """Each run has a group and a scope of its own, and the same hash in two is two blocks."""
    runs = [run(1, 2), run(1, 2, group=1), run(1, scope=b"a"), run(1, scope=b"b")]
    bodies = payloads(*"abcdef")
    await peer.client.store("cpu0", peer.namespace, runs, bodies)

    copied = await copy_blocks(node, *runs, peer=(peer.endpoint, "cpu0"), to="cpu0")

    assert copied.results == ["COPIED"] * 6
    assert await listed(node.client) == await listed(peer.client)
    sets = [blocks_of(1, 2), blocks_of(1, 2, group=1)]
    sets += [blocks_of(1, scope=b"a"), blocks_of(1, scope=b"b")]
    assert list((await node.client.load("cpu0", node.namespace, sets)).payloads) == bodies


async def test_a_full_target_makes_room_step_by_step(node: Serving, peer: Serving) -> None:
    """Older blocks go as for a store, and never those of the call itself."""
    for block in range(8):
        await node.store(block)
    await peer.store(*"abcdef")

    copied = await copy_blocks(node, run(*"abcdef"), peer=(peer.endpoint, "cpu0"), to="cpu0")

    assert copied.results == ["COPIED"] * 6
    assert await node.held() == hash_set([6, 7, *"abcdef"])


async def test_more_than_fits_comes_from_the_head(node: Serving, peer: Serving) -> None:
    """A chain longer than the target keeps its prefix, and the rest has no room."""
    await node.store("old")
    await peer.store(*range(12))

    copied = await copy_blocks(node, run(*range(12)), peer=(peer.endpoint, "cpu0"), to="cpu0")

    assert copied.results == ["COPIED"] * 8 + ["NO_ROOM"] * 4
    assert await node.held() == hash_set(range(8))
    nothing_is_held(node)


async def test_without_room_the_peer_is_not_asked(serve: Serve) -> None:
    """Nothing is transferred that could not be kept."""
    async with faking(_nothing) as fake:
        node = await serve(cpu_tier(2), peers=[fake.endpoint])
        await node.store(1, 2)
        pinned = await node.client.prepare_load("cpu0", node.namespace, [blocks_of(1, 2)])

        copied = await copy_blocks(node, run(3), peer=(fake.endpoint, "cpu0"), to="cpu0")

        assert copied.results == ["NO_ROOM"]
        assert fake.asked == []
        await node.client.complete_load(pinned.lease)


async def test_what_is_there_already_is_not_asked_for(serve: Serve) -> None:
    """A call that finds everything present needs no peer."""
    async with faking(_nothing) as fake:
        node = await serve(cpu_tier(4), peers=[fake.endpoint])
        await node.store(1, 2)

        copied = await copy_blocks(node, run(1, 2), peer=(fake.endpoint, "cpu0"), to="cpu0")

        assert (copied.results, fake.asked) == (["PRESENT", "PRESENT"], [])


async def _nothing(_hashes: list[bytes], _send: Send) -> None:
    """End the call without a word."""


async def test_room_is_made_by_moving_blocks_down(serve: Serve, peer: Serving) -> None:
    """A target that gives its evicted blocks to a slower tier does so for a pull too."""
    node = await serve(
        gpu_tier(4, on_evict="cpu0", free_target=0), cpu_tier(8), peers=[peer.endpoint]
    )
    await node.store(1, 2, 3, 4, tier="gpu0")
    await peer.store("a", "b")

    copied = await copy_blocks(node, run("a", "b"), peer=(peer.endpoint, "cpu0"), to="gpu0")

    assert copied.results == ["COPIED"] * 2
    assert await node.held("gpu0") == hash_set([1, 2, "a", "b"])
    assert await node.held("cpu0") == hash_set([3, 4])
    nothing_is_held(node)


async def test_what_was_pulled_is_written_through(serve: Serve, peer: Serving) -> None:
    """A pulled block is a stored block: the tiers below get their copies."""
    node = await serve(gpu_tier(4, write_through=["cpu0"]), cpu_tier(8), peers=[peer.endpoint])
    await peer.store("a", "b")

    await copy_blocks(node, run("a", "b", "c"), peer=(peer.endpoint, "cpu0"), to="gpu0")
    await node.comes_to({"ready": 2})

    assert await node.held() == hash_set(["a", "b"])
    assert (await node.tier()).counters.copies_failed == 0


async def test_the_tail_of_a_pulled_chain_goes_first(node: Serving, peer: Serving) -> None:
    """What one call brought is one group, however many steps it took."""
    await peer.store(*range(8))
    await copy_blocks(node, run(*range(8)), peer=(peer.endpoint, "cpu0"), to="cpu0")

    await node.store("x", "y", "z")

    assert await node.held() == hash_set([*range(5), "x", "y", "z"])


async def test_blocks_of_a_mebibyte_come_in_pieces(serve: Serve) -> None:
    """What takes several messages and threads is as exact, and a step holds but a part."""
    tier = {**cpu_tier(0), "capacity": 4 * LARGE, "slot_bytes": LARGE}
    large = namespace("large", block_bytes=[LARGE])
    peer = await serve(tier)
    node = await serve(tier, peers=[peer.endpoint])
    ends = []
    for each in (peer, node):
        fingerprint = await each.client.register_namespace(large)
        ends.append(Serving(each.server, each.client, each.clock, fingerprint))
    bodies = [payload(block, LARGE) for block in range(4)]
    await ends[0].client.store("cpu0", ends[0].namespace, [run(*range(4))], bodies)

    copied = await copy_blocks(ends[1], run(*range(4)), peer=(peer.endpoint, "cpu0"), to="cpu0")

    assert copied.results == ["COPIED"] * 4
    assert copied.answers == 4, "a step is a quarter of the tier"
    assert await ends[1].load(*range(4)) == bodies
    nothing_is_held(node)
    nothing_is_held(peer)


async def test_data_may_run_on_over_blocks_that_are_not_sent(serve: Serve) -> None:
    """As the protocol allows: a message's data passes over what it, or one before, has skipped."""

    async def running_on(hashes: list[bytes], send: Send) -> None:
        assert len(hashes) == 5
        whole = message(0, *payloads(0, 2, 4), block_indexes=[1, 3], results=[1, 2])
        await send(whole)

    async with faking(running_on) as fake:
        node = await serve(cpu_tier(32), peers=[fake.endpoint])

        copied = await copy_blocks(node, run(*range(5)), peer=(fake.endpoint, "cpu0"), to="cpu0")

        assert copied.results == ["COPIED", "MISS", "COPIED", "CORRUPT", "COPIED"]
        assert await node.load(0, 2, 4) == payloads(0, 2, 4)


async def test_pulls_that_make_no_sense_are_refused(node: Serving, peer: Serving) -> None:
    """The answer names what is wrong, and nothing changes."""
    await peer.store(1)
    _, *before = await node.state()

    with pytest.raises(InvalidArgumentError, match="move is set with from_peer"):
        await copy_blocks(node, run(1), peer=(peer.endpoint, "cpu0"), to="cpu0", move=True)
    with pytest.raises(InvalidArgumentError, match=r"from_peer\.tier"):
        await copy_blocks(node, run(1), peer=(peer.endpoint, "CPU 0"), to="cpu0")
    with pytest.raises(NotFoundError, match=rf"{peer.endpoint}.*tape0"):
        await copy_blocks(node, run(1), peer=(peer.endpoint, "tape0"), to="cpu0")
    with pytest.raises(NotFoundError, match="tape0"):
        await copy_blocks(node, run(1), peer=(peer.endpoint, "cpu0"), to="tape0")

    _, *now = await node.state()
    assert now == before
    nothing_is_held(node)
    after = await copy_blocks(node, run(1), peer=(peer.endpoint, "cpu0"), to="cpu0")
    assert after.results == ["COPIED"], "a refusal is no failure of the peer"


async def test_two_callers_at_once_are_one_transfer(serve: Serve) -> None:
    """Who comes second waits for the first, and is told that the blocks are present."""
    go = asyncio.Event()

    async def late(_hashes: list[bytes], send: Send) -> None:
        await go.wait()
        await send(message(0, *payloads(1, 2)))

    async with faking(late) as fake:
        node = await serve(cpu_tier(8), peers=[fake.endpoint])
        calls = [asyncio.create_task(_pull(node, fake)) for _ in range(3)]
        await until(lambda: node.node.transfers == len(calls))
        go.set()
        results = [await each for each in calls]

        assert sorted(results) == [["COPIED"] * 2, ["PRESENT"] * 2, ["PRESENT"] * 2]
        assert len(fake.asked) == 1
        nothing_is_held(node)


async def _pull(node: Serving, fake: FakePeer) -> list[str]:
    return (await copy_blocks(node, run(1, 2), peer=(fake.endpoint, "cpu0"), to="cpu0")).results


async def test_a_node_that_pulls_from_itself_does_no_harm(serve: Serve) -> None:
    """Its own address as it is configured is refused; by another name it is a peer like others."""
    with_port = await serve(cpu_tier(4))
    port = int(with_port.endpoint.rpartition(":")[2])
    await with_port.server.drain_and_stop()
    own, other = f"127.0.0.1:{port}", f"localhost:{port}"
    node = await serve(gpu_tier(4), cpu_tier(4), listen=own, peers=[own, other])
    await node.store(1)

    with pytest.raises(InvalidArgumentError, match="is this node"):
        await copy_blocks(node, run(1), peer=(own, "cpu0"), to="gpu0")
    other_tier = await copy_blocks(node, run(1), peer=(other, "cpu0"), to="gpu0")
    same_tier = await copy_blocks(node, run("absent"), peer=(other, "cpu0"), to="cpu0")

    assert (other_tier.results, same_tier.results) == (["COPIED"], ["MISS"])
    nothing_is_held(node)
