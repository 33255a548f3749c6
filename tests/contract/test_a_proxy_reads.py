"""A proxy that only reads tells of all its nodes what each would tell of itself."""

from collections.abc import Iterator

import pytest

from kvtier.client import (
    KvtierError,
    NotFoundError,
    Reason,
    UnavailableError,
    UnimplementedError,
)
from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.event_service_pb2 import SourceState, TierState
from kvtier.v1.listing_pb2 import ListBlocksRequest
from kvtier.v1.result_pb2 import LookupResult
from kvtier.v1.tier_pb2 import Tier
from tests.faults.relay import Relay
from tests.waiting import until

from .conftest import Serve
from .damage import damaged
from .good_requests import GOOD
from .harmless import is_harmless
from .reading_proxy import DEADLINE, IDENTITY, ReadingProxy, reading_proxy
from .scene import SCOPE, Scene, serve_scene
from .support import (
    Serving,
    block_hash,
    blocks_of,
    cpu_tier,
    gpu_tier,
    hash_set,
    namespace,
    words,
)
from .wire import METHODS, wire

READS = ("ListNamespaces", "ListTiers", "GetNode", "LookupBlocks", "ListBlocks", "DescribeBlock")
WRITES = sorted(
    name.removeprefix("TierService.")
    for name in METHODS
    if name.startswith("TierService.") and name.removeprefix("TierService.") not in READS
)
DOWN = SourceState.SOURCE_STATE_DOWN
UNSPECIFIED = TierState.TIER_STATE_UNSPECIFIED


def full(node: Serving, tier: str = "cpu0") -> str:
    return f"{node.node.node_id}/{tier}"


async def listed(proxy: ReadingProxy, **filters: object) -> list[tuple[str, bytes]]:
    """The tier and hash of every block that a listing shows, in its order."""
    blocks = proxy.client.list_blocks(**filters)  # type: ignore[arg-type]
    return [(block.tier, block.block_hash) async for block in blocks]


def renamed(tier: Tier, node: Serving) -> Tier:
    """A node's tier, as a proxy names it."""
    copy = Tier()
    copy.CopyFrom(tier)
    copy.name = full(node, tier.name)
    if tier.on_evict:
        copy.on_evict = full(node, tier.on_evict)
    copy.write_through[:] = [full(node, each) for each in tier.write_through]
    return copy


async def test_it_describes_itself_and_the_tiers_of_all_nodes(serve: Serve) -> None:
    """The primary's tiers first, with everything that a node says of them."""
    near = await serve(gpu_tier(8, on_evict="cpu0", write_through=["cpu0"]), cpu_tier(8))
    far = await serve(cpu_tier(4))
    await near.store("a", tier="gpu0")
    async with reading_proxy(near.endpoint, far.endpoint) as proxy:
        told = await proxy.client.get_node()
        tiers = await proxy.client.list_tiers()
        namespaces = await proxy.client.list_namespaces()

    assert told == IDENTITY
    assert tiers == [
        renamed(tier, node) for node in (near, far) for tier in await node.client.list_tiers()
    ]
    assert [tier.name for tier in tiers] == [full(near, "gpu0"), full(near), full(far)]
    assert namespaces == [namespace()]


async def test_a_node_that_does_not_answer_keeps_its_tiers_and_delays_nobody(serve: Serve) -> None:
    """Its tiers are named in no state, with why, after the deadline; the others' are whole."""
    near, far = await serve(), await serve()
    async with (
        Relay(far.endpoint) as relay,
        reading_proxy(near.endpoint, relay.endpoint) as proxy,
    ):
        before = await proxy.client.list_tiers()
        relay.stall()
        first, second = await proxy.client.list_tiers()
        with pytest.raises(UnavailableError, match="out of reach") as refused:
            await listed(proxy, tiers=[full(far)])

    assert before == [renamed(await node.tier(), node) for node in (near, far)]
    assert first == before[0]
    assert (second.name, second.state) == (full(far), UNSPECIFIED)
    assert f"{far.node.node_id} is out of reach" in second.state_reason
    assert f"within {DEADLINE:g} s" in second.state_reason
    assert refused.value.reason == Reason.PEER_UNREACHABLE


async def test_lookups_tell_where_blocks_are_over_all_nodes(serve: Serve) -> None:
    """By the events alone: each tier's reach, the union, and a mask for each block."""
    near, far = await serve(), await serve()
    await near.store("a", "b")
    await far.store("a", "b", "c")
    async with reading_proxy(near.endpoint, far.endpoint) as proxy:
        await proxy.hears(near.namespace, 5)
        answer = await proxy.client.lookup(
            near.namespace, [blocks_of("a", "b", "c", "d")], include_blocks=True
        )

    (chain,) = answer.chains
    assert list(answer.tiers) == [full(near), full(far)]
    assert list(chain.prefix_lengths) == [2, 3]
    assert chain.union_prefix_length == 3
    assert words(LookupResult, chain.results) == ["HIT", "HIT", "HIT", "MISS"]
    assert list(chain.tier_masks) == [3, 3, 2, 0]


async def test_a_dead_node_is_not_spoken_of_by_lookups(serve: Serve) -> None:
    """What only it held is a miss, and the lookup asks nobody."""
    near, far = await serve(), await serve()
    await far.store("a")
    async with reading_proxy(near.endpoint, far.endpoint) as proxy:
        await proxy.hears(far.namespace, 1)
        await far.server.drain_and_stop()
        await until(lambda: proxy.members.all[1].down)
        answer = await proxy.client.lookup(near.namespace, [blocks_of("a")], include_blocks=True)

    assert list(answer.tiers) == [full(near)]
    assert words(LookupResult, answer.chains[0].results) == ["MISS"]


async def test_an_unknown_namespace_is_not_found(serve: Serve) -> None:
    """As at a node; what the proxy does not know of no call goes on to a node."""
    near = await serve()
    async with reading_proxy(near.endpoint) as proxy:
        for call in (
            proxy.client.lookup(bytes(32), [blocks_of("a")]),
            proxy.client.describe_block(bytes(32), 0, b"", block_hash("a")),
            proxy.client.list_blocks_page(ListBlocksRequest(namespace=bytes(32))),
        ):
            with pytest.raises(NotFoundError) as error:
                await call
            assert error.value.reason == Reason.NAMESPACE_UNKNOWN


@pytest.mark.parametrize("page_size", [1, 2, 3, 0])
async def test_a_listing_goes_through_all_nodes(serve: Serve, page_size: int) -> None:
    """Every block of every tier once, node after node, whatever the size of a page."""
    near, empty, far = await serve(gpu_tier(8), cpu_tier(8)), await serve(), await serve()
    await near.store("a", "b", tier="gpu0")
    await near.store("a", "c")
    await far.store("a", "b", "d")
    async with reading_proxy(near.endpoint, empty.endpoint, far.endpoint) as proxy:
        blocks = await listed(proxy, page_size=page_size)

    expected = [
        (full(near, "gpu0"), "ab"), (full(near), "ac"), (full(far), "abd"),
    ]  # fmt: skip
    assert len(blocks) == 7
    for tier, names in expected:
        assert {block for each, block in blocks if each == tier} == hash_set(names)
    assert list(dict.fromkeys(tier for tier, _ in blocks)) == [tier for tier, _ in expected]


async def test_a_listing_is_filtered_by_tiers_of_nodes(serve: Serve) -> None:
    """A tier is named with its node; others of the node and other nodes are left out."""
    near, far = await serve(gpu_tier(8), cpu_tier(8)), await serve()
    await near.store("a", tier="gpu0")
    await near.store("b")
    await far.store("c")
    async with reading_proxy(near.endpoint, far.endpoint) as proxy:
        one = await listed(proxy, tiers=[full(near)])
        both = await listed(proxy, tiers=[full(far), full(near, "gpu0")])
        unknown = (["cpu0"], ["nobody/cpu0"], [full(far), "nobody/cpu0"], [full(far, "gpu7")])
        for tiers in unknown:
            with pytest.raises(NotFoundError) as error:
                await listed(proxy, tiers=tiers)
            assert error.value.reason == Reason.TIER_UNKNOWN

    assert one == [(full(near), block_hash("b"))]
    assert both == [(full(near, "gpu0"), block_hash("a")), (full(far), block_hash("c"))]


async def test_a_namespace_that_only_one_node_knows_is_listed(serve: Serve) -> None:
    """The other nodes have nothing of it."""
    near, far = await serve(register=False), await serve()
    await far.store("a")
    async with reading_proxy(near.endpoint, far.endpoint) as proxy:
        blocks = await listed(proxy, namespace=far.namespace)

    assert blocks == [(full(far), block_hash("a"))]


async def test_a_listing_with_a_hole_is_none(serve: Serve) -> None:
    """A node that is out of reach ends it, unless a filter leaves that node out."""
    near, far = await serve(), await serve()
    await near.store("a")
    async with reading_proxy(near.endpoint, far.endpoint) as proxy:
        await far.server.drain_and_stop()
        await until(lambda: proxy.members.all[1].down)
        with pytest.raises(UnavailableError, match=f"{far.node.node_id} is out of reach"):
            await listed(proxy)
        without = await listed(proxy, tiers=[full(near)])

    assert without == [(full(near), block_hash("a"))]


async def test_a_listing_does_not_go_on_at_another_life_of_a_node(serve: Serve) -> None:
    """A node that started anew does not know its token any more, and says so."""
    near, far = await serve(), await serve()
    await near.store("a", "b")
    async with reading_proxy(near.endpoint, far.endpoint) as proxy:
        page = await proxy.client.list_blocks_page(ListBlocksRequest(page_size=1))
        near.node.incarnation += 1
        request = ListBlocksRequest(page_size=1, page_token=page.next_page_token)
        with pytest.raises(KvtierError) as error:
            await proxy.client.list_blocks_page(request)

    assert (error.value.code.name, error.value.reason) == (
        "INVALID_ARGUMENT",
        Reason.PAGE_TOKEN_INVALID,
    )


async def test_a_block_is_described_with_all_its_copies(serve: Serve) -> None:
    """The primary's first, with the leases on each, and tiers named by their nodes."""
    near, far = await serve(), await serve()
    await near.store("a", "b")
    await far.store("a")
    await far.client.prepare_load("cpu0", far.namespace, [blocks_of("a")])
    async with reading_proxy(near.endpoint, far.endpoint) as proxy:
        await proxy.hears(near.namespace, 3)
        told = await proxy.client.describe_block(near.namespace, 0, b"", block_hash("a"))

    assert [copy.tier for copy in told.copies] == [full(near), full(far)]
    assert [(lease.tier, lease.owner) for lease in told.leases] == [(full(far), far.client.owner)]


async def test_a_block_that_the_index_does_not_know_is_asked_of_all(serve: Serve) -> None:
    """A tier without events may have it; who is out of reach leaves it open."""
    near, far = await serve(), await serve(cpu_tier(4, events=False))
    await far.store("a")
    async with reading_proxy(near.endpoint, far.endpoint) as proxy:
        told = await proxy.client.describe_block(near.namespace, 0, b"", block_hash("a"))
        with pytest.raises(NotFoundError) as absent:
            await proxy.client.describe_block(near.namespace, 0, b"", block_hash("z"))
        await far.server.drain_and_stop()
        await until(lambda: proxy.members.all[1].down)
        with pytest.raises(UnavailableError, match=f"{far.node.node_id} is out of reach"):
            await proxy.client.describe_block(near.namespace, 0, b"", block_hash("a"))

    assert [copy.tier for copy in told.copies] == [full(far)]
    assert absent.value.reason == Reason.BLOCK_UNKNOWN


async def test_a_proxy_over_a_proxy_tells_the_same(serve: Serve) -> None:
    """Tiers keep their full names, and listings their order, through any number of proxies."""
    near, middle, far = [await serve() for _ in range(3)]
    for node, blocks in ((near, "a"), (middle, "ab"), (far, "abc")):
        await node.store(*blocks)
    async with (
        reading_proxy(middle.endpoint, far.endpoint) as inner,
        reading_proxy(near.endpoint, (inner.endpoint, [middle.endpoint, far.endpoint])) as proxy,
    ):
        await proxy.hears(near.namespace, 6)
        tiers = await proxy.client.list_tiers()
        every = await listed(proxy, page_size=2)
        one = await listed(proxy, tiers=[full(far)])
        told = await proxy.client.describe_block(near.namespace, 0, b"", block_hash("b"))
        found = await proxy.client.lookup(near.namespace, [blocks_of("a", "b", "c")])

    names = [full(near), full(middle), full(far)]
    assert [tier.name for tier in tiers] == names
    assert [tier for tier, _ in every] == [names[0], *[names[1]] * 2, *[names[2]] * 3]
    assert {block for _, block in one} == hash_set("abc")
    assert [copy.tier for copy in told.copies] == names[1:]
    assert list(found.tiers) == names
    assert list(found.chains[0].prefix_lengths) == [1, 2, 3]


def read_requests(rpc: str, scene: Scene, token: bytes) -> Iterator[bytes]:
    """Every damaged form of the good requests of a call, as a proxy takes them."""
    for (message,) in GOOD[f"TierService.{rpc}"](scene):
        if isinstance(message, ListBlocksRequest):
            message.tiers[:] = [full(scene.node)] if message.tiers else []
            message.page_token = token if message.page_token else b""
        yield message.SerializeToString()
        for bad in damaged(message):
            if not is_harmless(type(message).__name__, bad):
                yield bad.data


@pytest.mark.parametrize("rpc", READS)
async def test_bad_input_is_refused_as_a_node_does(serve: Serve, rpc: str) -> None:
    """The good request is answered, every bad one with a clear status, and no node changes."""
    scene = await serve_scene(serve)
    async with (
        reading_proxy(scene.node.endpoint) as proxy,
        wire(proxy.endpoint) as raw,
    ):
        before = scene.state()
        token = (
            await proxy.client.list_blocks_page(ListBlocksRequest(page_size=1))
        ).next_page_token
        method = METHODS[f"TierService.{rpc}"]
        good, *bad = read_requests(rpc, scene, token)
        answered = await raw.call(method, good)
        codes = {(await raw.call(method, each)).code for each in bad}

        assert answered.code == "OK"
        assert codes <= {"INVALID_ARGUMENT", "NOT_FOUND", "OK"}
        assert (await raw.call(method)).code == "INVALID_ARGUMENT"
        assert scene.state() == before


@pytest.mark.parametrize("rpc", WRITES)
async def test_what_changes_anything_is_unimplemented(serve: Serve, rpc: str) -> None:
    """Good requests are refused with the primary's address, and nothing changes."""
    scene = await serve_scene(serve)
    async with (
        reading_proxy(scene.node.endpoint) as proxy,
        wire(proxy.endpoint) as raw,
    ):
        before = scene.state()
        for messages in GOOD[f"TierService.{rpc}"](scene):
            outcome = await raw.call(METHODS[f"TierService.{rpc}"], *messages)

            assert outcome.code == "UNIMPLEMENTED"
            assert outcome.error is not None
            assert scene.node.endpoint in outcome.error.message
        assert scene.state() == before


async def test_a_client_is_told_where_to_write(serve: Serve) -> None:
    """The error of a write names the primary, and not a node that is no kvtier node."""
    near = await serve()
    async with reading_proxy(near.endpoint) as proxy:
        with pytest.raises(
            UnimplementedError, match=f"make this call at the primary, {near.endpoint}"
        ):
            await proxy.client.register_namespace(namespace("another"))
        scoped = [BlockSet(group=1, scope=SCOPE, block_hashes=block_hash("a"))]
        with pytest.raises(UnimplementedError, match=near.endpoint):
            await proxy.client.prepare_load("cpu0", near.namespace, scoped)
