"""A pin keeps blocks for long: until it expires or is taken back, and whatever its owner does."""

import asyncio

import pytest

from kvtier.client import (
    AbortedError,
    ExhaustedError,
    FailedPreconditionError,
    InvalidArgumentError,
)
from kvtier.v1.pinning_pb2 import PinBlocksResponse
from kvtier.v1.result_pb2 import DeleteResult, LeaseResult, LookupResult

from .conftest import Connect, Follow, Serve
from .copy_gate import CopyGate
from .support import (
    ANY_TIER,
    BLOCK_BYTES,
    MakeTier,
    blocks_of,
    cpu_tier,
    gpu_tier,
    hash_set,
    payloads,
    run,
    words,
)
from .tiers_of_two import CPU, GPU, exclusive

HOUR, DAY = 3600.0, 86_400.0
LEASE_TTL_MAX = 300


async def test_a_pinned_block_stays_far_longer_than_a_lease_lives(
    serve: Serve, any_tier: MakeTier
) -> None:
    """Other blocks come and go around it until the pin expires; then it goes like any other."""
    node = await serve(any_tier(2))
    await node.store("kept", tier=ANY_TIER)
    await node.client.pin(ANY_TIER, node.namespace, [blocks_of("kept")], ttl=3 * DAY)

    for day in range(3):
        node.clock.advance(DAY - 1)
        await node.store(("other", day), tier=ANY_TIER)
        assert await node.load("kept", tier=ANY_TIER) == payloads("kept")
    during = (await node.tier(ANY_TIER)).pinned_blocks
    node.clock.advance(3)
    after = (await node.tier(ANY_TIER)).pinned_blocks
    await node.store("new", "newer", tier=ANY_TIER)

    assert (during, after) == (1, 0)
    assert await node.held(ANY_TIER) == hash_set(["new", "newer"])


async def test_only_what_is_readable_is_pinned(serve: Serve) -> None:
    """Each block has its own result, and one that is named twice is pinned once."""
    node = await serve(cpu_tier(4))
    await node.store("A", "B")

    answer = await node.client.pin("cpu0", node.namespace, [blocks_of("A", "absent", "A", "B")])

    assert words(LookupResult, answer.results) == ["HIT", "MISS", "HIT", "HIT"]
    assert answer.ttl.seconds == DAY
    assert (await node.tier()).pinned_blocks == 2
    await node.client.unpin([answer.lease])
    assert (await node.tier()).pinned_blocks == 0
    assert await node.gauges() == {"ready": 2}


async def test_a_repeated_pin_gets_the_first_answer(serve: Serve) -> None:
    """The lease id makes a repeat harmless, and serves for one request only."""
    node = await serve(cpu_tier(4))
    await node.store("A", "B")

    async def pin(*blocks: str) -> PinBlocksResponse:
        return await node.client.pin(
            "cpu0", node.namespace, [blocks_of(*blocks)], lease_id=b"sixteen bytes id", ttl=60
        )

    first = await pin("A", "C")
    await node.store("C", after="A")

    again = await pin("A", "C")
    with pytest.raises(FailedPreconditionError, match="another request"):
        await pin("B")

    assert again == first
    assert (await node.tier()).pinned_blocks == 1
    node.clock.advance(61)
    with pytest.raises(AbortedError, match="expired"):
        await pin("A", "C")


async def test_unpinning_ends_pins_and_nothing_else(serve: Serve) -> None:
    """Taking a pin back twice is harmless, and neither it nor an owner's name ends a lease."""
    node = await serve(cpu_tier(4))
    await node.store("A")
    pin = await node.client.pin("cpu0", node.namespace, [blocks_of("A")])
    load = await node.client.prepare_load("cpu0", node.namespace, [blocks_of("A")])

    answers = [await node.client.unpin([pin.lease, load.lease]) for _ in range(2)]
    await node.client.pin("cpu0", node.namespace, [blocks_of("A")])
    by_owner = await node.client.unpin(owner=node.client.owner)

    assert [words(LeaseResult, answer.results) for answer in answers] == [["OK", "NOT_FOUND"]] * 2
    assert by_owner.owner_pins == 1
    assert await node.gauges() == {"ready": 1, "leased": 1}
    await node.client.complete_load(load.lease)
    assert await node.gauges() == {"ready": 1}


async def test_an_expired_pin_is_told_to_whoever_takes_it_back(serve: Serve) -> None:
    """It ended in another way before, which is no success."""
    node = await serve(cpu_tier(4))
    await node.store("A")
    pin = await node.client.pin("cpu0", node.namespace, [blocks_of("A")], ttl=60)
    node.clock.advance(61)

    answer = await node.client.unpin([pin.lease])

    assert words(LeaseResult, answer.results) == ["ENDED"]


async def test_each_pin_on_a_block_protects_it_alone(serve: Serve, connect: Connect) -> None:
    """Of two owners one takes its pin back twice; the block stays for the other, under pressure."""
    node = await serve(cpu_tier(2))
    await node.store("H")
    other = await connect(node, owner="other")
    pins = [
        await client.pin("cpu0", node.namespace, [blocks_of("H")])
        for client in (node.client, other)
    ]

    counts = []
    for _ in range(2):
        await node.client.unpin([pins[0].lease])
        counts.append((await node.tier()).pinned_blocks)
    for block in range(5):
        await node.store(block)

    assert counts == [1, 1]
    assert await node.load("H") == payloads("H")
    await other.unpin([pins[1].lease])
    await node.store("X", "Y")
    assert await node.held() == hash_set("XY")


async def test_a_clear_and_a_delete_stop_at_pins(serve: Serve, follow: Follow) -> None:
    """Without force nothing changes; with force the block is gone at once and its pin is empty."""
    node = await serve(cpu_tier(2))
    await node.store("A", "B")
    pin = await node.client.pin("cpu0", node.namespace, [blocks_of("A")])
    follower = await follow(node)
    before = await node.state()

    with pytest.raises(FailedPreconditionError, match=r"1 blocks .* pins"):
        await node.client.clear("cpu0")
    busy = await node.client.delete(node.namespace, [blocks_of("A")])
    unchanged = await node.state()
    cleared = await node.client.clear("cpu0", force=True)
    during = await node.gauges()

    assert words(DeleteResult, busy.tiers[0].results) == ["BUSY"]
    assert unchanged == before
    assert cleared.removed_blocks == 2
    assert (during, (await node.tier()).pinned_blocks) == ({"draining": 1}, 0)
    assert [each.what for each in await follower.news()] == ["cleared"]
    await node.store("A")
    await node.client.unpin([pin.lease])
    assert await node.gauges() == {"ready": 1}
    assert (await node.tier()).pinned_blocks == 0


async def test_a_forced_delete_empties_every_pin_on_a_block(serve: Serve) -> None:
    """Two pins on one block that is gone: the slot drains until the last of them ends."""
    node = await serve(cpu_tier(1))
    await node.store("A")
    pins = [await node.client.pin("cpu0", node.namespace, [blocks_of("A")]) for _ in range(2)]

    await node.client.delete(node.namespace, [blocks_of("A")], force=True)
    states = [((await node.tier()).pinned_blocks, await node.gauges())]
    for pin in pins:
        await node.client.unpin([pin.lease])
        states.append(((await node.tier()).pinned_blocks, await node.gauges()))

    assert states == [(0, {"draining": 1}), (0, {"draining": 1}), (0, {})]


async def test_pins_have_limits_of_their_own(serve: Serve) -> None:
    """An owner's pins do not count among its leases, in bytes or number, and are bounded too."""
    limits = {
        "pinned_bytes_per_owner": 2 * BLOCK_BYTES,
        "leased_bytes_per_owner": BLOCK_BYTES,
        "leases_per_owner": 2,
    }
    node = await serve(cpu_tier(4), limits=limits)
    for block in "ABC":
        await node.store(block)
    pins = [await node.client.pin("cpu0", node.namespace, [blocks_of("A", "B")])]

    with pytest.raises(ExhaustedError, match="pinned_bytes_per_owner") as by_bytes:
        await node.client.pin("cpu0", node.namespace, [blocks_of("C")])
    pins.append(await node.client.pin("cpu0", node.namespace, [blocks_of("absent")]))
    with pytest.raises(ExhaustedError, match="has 2 pins") as by_number:
        await node.client.pin("cpu0", node.namespace, [blocks_of("absent")])
    await node.client.prepare_load("cpu0", node.namespace, [blocks_of("C")])

    assert {by_bytes.value.reason, by_number.value.reason} == {"LEASE_LIMIT"}
    assert (await node.tier()).pinned_blocks == 2
    await node.client.unpin([pins[0].lease])
    await node.client.pin("cpu0", node.namespace, [blocks_of("C")])


async def test_the_room_that_pins_hold_is_told(serve: Serve) -> None:
    """A store that finds a tier full of pinned blocks is told of them."""
    node = await serve(cpu_tier(1))
    await node.store("A")
    await node.client.pin("cpu0", node.namespace, [blocks_of("A")])

    with pytest.raises(ExhaustedError, match="1 are leased or pinned") as refused:
        await node.store("B")

    assert refused.value.metadata["pinned_blocks"] == "1"


@pytest.mark.parametrize(("ttl", "told"), [(7 * DAY + 1, "at most 604800 s"), (1e10, "604800")])
async def test_a_pin_has_a_longest_time_to_live(serve: Serve, ttl: float, told: str) -> None:
    """Beyond it a pin is refused with the limit, which GetNode tells too."""
    node = await serve(cpu_tier(1))
    await node.store("A")

    with pytest.raises(InvalidArgumentError, match=told):
        await node.client.pin("cpu0", node.namespace, [blocks_of("A")], ttl=ttl)

    limits = (await node.client.get_node()).limits
    assert (limits.pin_ttl.seconds, limits.pinned_bytes_per_owner) == (7 * DAY, 16 << 30)
    assert (await node.tier()).pinned_blocks == 0


async def test_a_renewal_gives_a_pin_the_time_of_pins(serve: Serve) -> None:
    """Beside a lease the lease's limit holds for both; without a time each keeps to its kind."""
    node = await serve(cpu_tier(2))
    await node.store("A", "B")
    pin = (await node.client.pin("cpu0", node.namespace, [blocks_of("A")], ttl=60)).lease
    load = (await node.client.prepare_load("cpu0", node.namespace, [blocks_of("B")])).lease

    with pytest.raises(InvalidArgumentError, match="at most 300 s"):
        await node.client.renew_leases([pin, load], ttl=HOUR)
    await node.client.renew_leases([pin, load])
    node.clock.advance(LEASE_TTL_MAX)
    alive = await node.client.renew_leases([pin], ttl=2 * DAY)
    ended = await node.client.renew_leases([pin, load], ttl=60)
    await node.client.renew_leases([pin], ttl=2 * DAY)
    node.clock.advance(2 * DAY - 1)

    assert words(LeaseResult, [*alive.results, *ended.results]) == ["OK", "OK", "ENDED"]
    assert (await node.tier()).pinned_blocks == 1


async def test_pinning_stamps_nothing(serve: Serve) -> None:
    """A pin is no use: once it is taken back, the block is as old as it was."""
    node = await serve(cpu_tier(2))
    await node.store("old")
    await node.store("new")

    pin = await node.client.pin("cpu0", node.namespace, [blocks_of("old")])
    await node.client.unpin([pin.lease])
    await node.store("newest")

    assert await node.held() == hash_set(["new", "newest"])


async def test_a_pin_holds_one_copy(serve: Serve) -> None:
    """The copy in another tier of the node goes as if there were no pin."""
    node = await serve(gpu_tier(1), cpu_tier(1))
    for tier in ("gpu0", "cpu0"):
        await node.store("A", tier=tier)

    await node.client.pin("cpu0", node.namespace, [blocks_of("A")])
    await node.store("B", tier="gpu0")

    assert (await node.held("gpu0"), await node.held("cpu0")) == (hash_set("B"), hash_set("A"))
    described = await node.client.describe_block(node.namespace, 0, b"", next(iter(hash_set("A"))))
    assert [(lease.tier, lease.kind) for lease in described.leases] == [("cpu0", 3)]


async def test_a_lease_id_that_a_store_waits_with_is_no_pin(serve: Serve, gate: CopyGate) -> None:
    """A pin by the id of a store that still waits for room waits too, and is refused."""
    node = await serve(*exclusive(1, 2))
    await node.store("A", tier=GPU)
    await node.store("kept", tier=CPU)
    gate.shut()
    offer = (GPU, node.namespace, [run("B")])
    storing = asyncio.create_task(node.client.prepare_store(*offer, lease_id=b"i" * 16))
    await gate.reached()
    pinning = asyncio.create_task(
        node.client.pin(CPU, node.namespace, [blocks_of("kept")], lease_id=b"i" * 16)
    )

    gate.let_through()

    await storing
    with pytest.raises(FailedPreconditionError, match="another request"):
        await pinning
    assert (await node.tier(CPU)).pinned_blocks == 0
