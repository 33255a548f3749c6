"""After a start a tier finds again what lies on its shelf, and lets go of all else that is its."""

import asyncio

import pytest

from kvtier.server.lasting import recovery
from kvtier.server.lasting.record import HEAD_BYTES, encode_header
from kvtier.server.tiers.removal import clear
from kvtier.v1.block_pb2 import MEDIUM_FS
from kvtier.v1.event_service_pb2 import TierState
from tests.contract.support import BLOCK_BYTES, TOKENS, block_hash, hash_set, namespace
from tests.waiting import until

from .lives import COST, FS, chain, lay, record_of, recovered, restart, upkeep
from .memory_shelf import MemoryShelf


@pytest.fixture
def shelf() -> MemoryShelf:
    return MemoryShelf()


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_BATCH", 2)


async def test_blocks_are_back_with_all_that_was_said_of_them(shelf: MemoryShelf) -> None:
    """Parent, position, checksum, adapter and token ids are those of the store."""
    described = namespace("with-tokens", keep_token_ids=True)
    parent = record_of(
        "a", 1, described=described, adapter_name="lora", token_ids=bytes(4 * TOKENS)
    )
    child = record_of(
        "b", 2, after="a", described=described, adapter_name="lora", token_ids=b"\x01" * 4 * TOKENS
    )
    lay(shelf, [parent, child], described)
    node = restart(shelf)

    await recovered(node)

    table, space = (
        node.tier.table,
        node.node.spaces.find(node.node.registry.get(parent.namespace), 0, b""),
    )
    first, second = table.index.get_many(space.keys([parent.hash, child.hash]))
    assert first is not None
    assert second is not None
    assert (table.parent[first], table.parent[second]) == (None, table.key[first])
    assert (table.start[first], table.start[second]) == (0, TOKENS)
    assert table.checksum[first] == parent.checksum
    assert table.checksum[second] == child.checksum
    assert table.origin[second].adapter_name == "lora"
    assert table.token_ids[second] == child.token_ids
    assert table.leases[first] == table.leases[second] == 0
    assert node.tier.health.state == TierState.TIER_STATE_READY


async def test_what_is_found_is_announced(shelf: MemoryShelf) -> None:
    """A chain comes back as one run of one BlockStored, parent first."""
    lay(shelf, chain("a", "b", "c", first=7))
    node = restart(shelf)

    await recovered(node)

    (batch,) = node.batches()
    (stored,) = batch.stored
    assert (stored.tier, stored.medium) == (FS, MEDIUM_FS)
    assert stored.block_hashes == b"".join(map(block_hash, "abc"))
    assert node.tier.counters.stored == 3


async def test_only_headers_are_read(shelf: MemoryShelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """No payload is; a header is read to its end, however long it is."""
    described = namespace("long", keep_token_ids=True, tokens_per_block=512, block_bytes=[1 << 16])
    long = record_of("a", 1, described=described, token_ids=bytes(2048), size=1 << 16)
    lay(shelf, [long], described)
    read: list[int] = []
    head = shelf.head

    def count(name: str, length: int) -> tuple[bytes, int]:
        read.append(length)
        return head(name, length)

    monkeypatch.setattr(shelf, "head", count)
    monkeypatch.delattr(MemoryShelf, "get")
    node = restart(shelf)

    await recovered(node)

    assert read == [HEAD_BYTES, len(encode_header(long))]
    assert node.tier.occupancy.ready == 1


@pytest.mark.usefixtures("small_batches")
async def test_the_newest_stay_when_there_is_less_room(shelf: MemoryShelf) -> None:
    """What is beyond the capacity goes, the oldest first, from the shelf too."""
    records = chain(*range(9))
    lay(shelf, records)
    node = restart(shelf, 5)

    await recovered(node)

    assert set(shelf.blocks) == {record.name for record in records[4:]}
    assert node.look_up(*range(9)) == ["MISS"] * 4 + ["HIT"] * 5
    assert node.tier.counters.trimmed == 4
    assert node.tier.table.used_bytes == 5 * COST


async def test_a_block_too_large_for_the_tier_costs_the_others_nothing(shelf: MemoryShelf) -> None:
    """A newer block that can never fit goes, and older ones stay."""
    huge = namespace("huge", block_bytes=[1 << 16])
    lay(shelf, [record_of("huge", 9, described=huge, size=1 << 16)], huge)
    lay(shelf, chain("a", "b"))
    node = restart(shelf, 4)

    await recovered(node)

    assert node.look_up("a", "b") == ["HIT", "HIT"]
    assert len(shelf.blocks) == 2


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("between", [0, 5])
async def test_an_older_copy_goes(shelf: MemoryShelf, between: int) -> None:
    """Of two files of one block the newer one is kept, in one batch or in two."""
    older, newer = record_of("a", 1), record_of("a", 2 + between)
    lay(shelf, [older, *chain(*range(between), first=2), newer])
    node = restart(shelf)

    await recovered(node)

    assert older.name not in shelf.blocks
    assert newer.name in shelf.blocks
    assert node.look_up("a") == ["HIT"]
    assert node.tier.occupancy.ready == 1 + between


async def test_copies_of_two_adapters_are_one_block(shelf: MemoryShelf) -> None:
    """The newest stays: the name of an adapter is no part of what a block is known by."""
    older, newer = record_of(1, 1, adapter_name="old"), record_of(1, 2, adapter_name="new")
    lay(shelf, [older, newer])
    node = restart(shelf)

    await recovered(node)

    assert list(shelf.blocks) == [newer.name]
    assert node.tier.occupancy.ready == 1
    assert node.tier.table.used_bytes == COST


@pytest.mark.usefixtures("small_batches")
async def test_a_name_that_is_listed_twice_is_no_second_copy(
    shelf: MemoryShelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing that repeats itself costs no block."""
    records = chain("a", "b", "c")
    lay(shelf, records)
    monkeypatch.setattr(shelf, "names", lambda: iter([list(shelf.blocks)] * 2))
    node = restart(shelf)

    await recovered(node)

    assert len(shelf.blocks) == 3
    assert node.look_up("a", "b", "c") == ["HIT"] * 3


async def test_a_listing_may_have_empty_pages(
    shelf: MemoryShelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of other things only is not the end."""
    lay(shelf, chain("a", "b"))
    one, other = shelf.blocks
    monkeypatch.setattr(shelf, "names", lambda: iter([[], [one], [], [other]]))
    node = restart(shelf)

    await recovered(node)

    assert node.look_up("a", "b") == ["HIT"] * 2


async def test_an_empty_shelf_is_soon_known(shelf: MemoryShelf) -> None:
    """There is nothing to look at, and the first number of a write is 1."""
    node = restart(shelf)

    await recovered(node)

    assert not node.tier.occupancy.ready
    assert next(node.tier.store.serials) == 1  # type: ignore[union-attr]


def changed(whole: bytes) -> bytes:
    return whole[:20] + bytes([whole[20] ^ 1]) + whole[21:]


@pytest.mark.parametrize(
    "spoil",
    [changed, lambda whole: whole[:-1], lambda whole: whole[:30], lambda whole: whole + b"x"],
    ids=["changed", "short", "cut", "long"],
)
async def test_damaged_blocks_go(shelf: MemoryShelf, spoil: type[bytes]) -> None:
    """What is not whole is removed and counted, and the others are kept."""
    records = chain("a", "b")
    lay(shelf, records)
    shelf.blocks[records[1].name] = spoil(shelf.blocks[records[1].name])
    node = restart(shelf)

    await recovered(node)

    assert list(shelf.blocks) == [records[0].name]
    assert node.look_up("a", "b") == ["HIT", "MISS"]
    assert node.tier.counters.corrupt == 1


@pytest.mark.parametrize(
    "fields",
    [{"group": 2}, {"size": BLOCK_BYTES + 1}, {"hash": b"h" * 16}, {"parent": b"p"}, {"start": 1}],
    ids=str,
)
async def test_blocks_that_are_not_as_their_namespace_says_go(
    shelf: MemoryShelf, fields: dict[str, object]
) -> None:
    """A whole block of another group, size, width or position than there can be is damage."""
    wrong = record_of("b", 2)._replace(**fields)  # type: ignore[arg-type]
    lay(shelf, [record_of("a", 1), wrong])
    node = restart(shelf)

    await recovered(node)

    assert list(shelf.blocks) == [record_of("a", 1).name]
    assert node.tier.counters.corrupt == 1


async def test_a_block_under_anothers_name_goes(shelf: MemoryShelf) -> None:
    """A name says which block it is, and its header must say the same."""
    a, b = record_of("a", 1), record_of("b", 2)
    lay(shelf, [a, b])
    shelf.blocks[b.name] = shelf.blocks[a.name]
    node = restart(shelf)

    await recovered(node)

    assert list(shelf.blocks) == [a.name]


async def test_blocks_of_unknown_namespaces_are_left_alone(shelf: MemoryShelf) -> None:
    """They stay and count, until the whole tier is cleared."""
    stranger = record_of("s", 1, described=namespace("other"))
    lay(shelf, [*chain("a"), stranger])
    node = restart(shelf)
    await recovered(node)
    assert node.tier.table.used_bytes == 2 * COST
    assert stranger.name in shelf.blocks

    node = restart(shelf)
    async with upkeep(node):
        await until(lambda: not node.tier.health.recovering)
        clear(node.tier, node.node.registry.get(node.namespace))
        await node.tier.keeping.store.flush()  # type: ignore[union-attr]
        assert list(shelf.blocks) == [stranger.name]
        clear(node.tier, None)
        await node.tier.keeping.store.flush()  # type: ignore[union-attr]

    assert not shelf.blocks
    assert not node.tier.table.used_bytes


async def test_blocks_of_unknown_namespaces_keep_within_the_capacity(shelf: MemoryShelf) -> None:
    """The oldest of them go like others when there is too little room."""
    other = namespace("other")
    strangers = [record_of(i, i, described=other) for i in range(1, 6)]
    lay(shelf, strangers)
    node = restart(shelf, 3)

    await recovered(node)

    assert set(shelf.blocks) == {record.name for record in strangers[2:]}


async def test_a_description_that_cannot_be_used_leaves_its_blocks_out(shelf: MemoryShelf) -> None:
    """A namespace that is registered with another description meanwhile stays as registered."""
    other = namespace(model="another")
    lay(shelf, [record_of("a", 1, described=other)], other)
    shelf.namespaces["00"] = b"\xff\xff"
    node = restart(shelf)
    node.node.register(namespace())

    await recovered(node)

    assert node.look_up("a") == ["MISS"]
    assert len(shelf.blocks) == 1


async def test_what_vanishes_meanwhile_is_passed_over(
    shelf: MemoryShelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block that is listed and gone when it is looked at is neither there nor damaged."""
    records = chain("a", "b")
    lay(shelf, records)
    monkeypatch.setattr(shelf, "names", lambda: iter([[record.name for record in records]]))
    del shelf.blocks[records[0].name]
    node = restart(shelf)

    await recovered(node)

    assert node.look_up("a", "b") == ["MISS", "HIT"]
    assert not node.tier.counters.corrupt


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("policy", ["lru", "arc"])
async def test_the_oldest_go_first(shelf: MemoryShelf, policy: str) -> None:
    """What was found goes before what is used, and of it what was written first."""
    lay(shelf, [record_of(i, i) for i in range(1, 7)])
    node = restart(shelf, policy=policy)
    await recovered(node)
    table = node.tier.table
    space = node.node.spaces.find(node.node.registry.get(node.namespace), 0, b"")
    node.tier.stamp("request", space.keys([block_hash(2)]))

    going = [slot for _, slots in node.tier.occupancy.choose(6) for slot in slots]

    keys = [table.key[slot] for slot in going]
    pairs = [set(keys[:1]), set(keys[1:3]), set(keys[3:5]), set(keys[5:])]
    expected: list[list[object]] = [[1], [3, 4], [5, 6], [2]]
    assert pairs == [set(space.keys(list(hash_set(some)))) for some in expected]


async def test_numbers_of_writes_go_on(shelf: MemoryShelf) -> None:
    """No name is used a second time, also not that of a block that is let go."""
    lay(shelf, [record_of("a", 41)])
    node = restart(shelf)

    await recovered(node)

    assert next(node.tier.store.serials) == 42  # type: ignore[union-attr]


@pytest.mark.usefixtures("small_batches")
async def test_a_shelf_that_fails_is_tried_until_it_works(shelf: MemoryShelf) -> None:
    """Meanwhile the tier says why; nothing is lost by that."""
    lay(shelf, chain(*range(5)))
    shelf.trouble = "input/output error"
    node = restart(shelf)
    async with upkeep(node):
        await until(lambda: node.tier.health.reason == "input/output error")
        assert node.tier.health.recovering

        shelf.trouble = ""
        await until(lambda: not node.tier.health.recovering)

    assert node.look_up(*range(5)) == ["HIT"] * 5
    assert node.tier.health.state == TierState.TIER_STATE_READY


async def test_a_shelf_that_stands_still_is_tried_until_it_works(shelf: MemoryShelf) -> None:
    """An operation without an end is given up, and begun again."""
    lay(shelf, chain(*range(5)))
    shelf.gate.clear()
    node = restart(shelf, io_timeout=0.1)
    async with upkeep(node):
        await until(lambda: node.tier.health.reason == "it does not answer")
        shelf.gate.set()
        await until(lambda: not node.tier.health.recovering)

    assert node.look_up(*range(5)) == ["HIT"] * 5


async def test_slow_heads_are_taken_in_as_they_come(
    shelf: MemoryShelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that takes longer than an operation may is read in pieces."""
    lay(shelf, chain(*range(8)))
    head, pause = shelf.head, asyncio.run_coroutine_threadsafe
    loop = asyncio.get_running_loop()

    def slow(name: str, length: int) -> tuple[bytes, int]:
        pause(asyncio.sleep(0.05), loop).result()
        return head(name, length)

    monkeypatch.setattr(shelf, "head", slow)
    node = restart(shelf, io_timeout=0.2, io_threads=1)

    await recovered(node)

    assert node.look_up(*range(8)) == ["HIT"] * 8


async def test_a_fault_of_the_node_itself_shows(
    shelf: MemoryShelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recovery that cannot go on says so, and never passes for one that is done."""
    monkeypatch.delattr(MemoryShelf, "names")
    node = restart(shelf)
    async with upkeep(node):
        await until(lambda: node.tier.health.reason.startswith("an error"))

    assert node.tier.health.recovering
