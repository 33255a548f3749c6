"""Blocks changed under the node: never sent, never taken for others, always told."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kvtier.v1.result_pb2 import ReadResult

from .conftest import Follow, Serve
from .grounds import Directory, Ground, name_of
from .support import (
    ANY_TIER,
    Serving,
    block_hash,
    blocks_of,
    payload,
    payloads,
    words,
)

Harm = Callable[[Ground, str], object]


def changed(change: Callable[[bytes], bytes]) -> Harm:
    """Put other bytes in the place of a block's."""
    return lambda ground, name: ground.write(name, change(ground.read(name)))


def flipped(place: int) -> Harm:
    """Change one bit of a byte."""

    def flip(data: bytes) -> bytes:
        place_of = place % len(data)
        return data[:place_of] + bytes([data[place_of] ^ 1]) + data[place_of + 1 :]

    return changed(flip)


HARMS: dict[str, tuple[Harm, str, str]] = {
    "deleted": (lambda ground, name: ground.remove(name), "MISS", "LOST"),
    "truncated": (changed(lambda data: data[:-1]), "CORRUPT", "CORRUPT"),
    "halved": (changed(lambda data: data[: len(data) // 2]), "CORRUPT", "CORRUPT"),
    "emptied": (changed(lambda _: b""), "CORRUPT", "CORRUPT"),
    "appended": (changed(lambda data: data + b"x"), "CORRUPT", "CORRUPT"),
    "overwritten": (changed(lambda data: bytes(len(data))), "CORRUPT", "CORRUPT"),
    "a bit of the payload": (flipped(-3), "CORRUPT", "CORRUPT"),
    "a bit of the header": (flipped(20), "CORRUPT", "CORRUPT"),
    "the first bit": (flipped(0), "CORRUPT", "CORRUPT"),
}
each_harm = pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
IN_ORDER = "UNSPECIFIED"


async def read(node: Serving, *blocks: object) -> tuple[list[bytes | None], list[str]]:
    """Load blocks; return their bytes, and why there are none."""
    report = await node.client.load(ANY_TIER, node.namespace, [blocks_of(*blocks)])
    return list(report.payloads), words(ReadResult, report.results)


@each_harm
async def test_what_was_harmed_costs_its_block_only(
    serve: Serve, follow: Follow, ground: Ground, harm: tuple[Harm, str, str]
) -> None:
    """The others of the request come; followers are told why it went; its next store works."""
    do, why, reason = harm
    node = await serve(ground.tier())
    await node.store("a", "b", "c", tier=ANY_TIER)
    follower = await follow(node)
    do(ground, name_of(ground, payload("b")))

    data, told = await read(node, "a", "b", "c")

    assert data == [payload("a"), None, payload("c")]
    assert told == [IN_ORDER, why, IN_ORDER]
    (news,) = await follower.news()
    assert (news.what, news.reason, news.block_hash) == ("removed", reason, block_hash("b"))
    assert await node.look_up("a", "b", "c") == ["HIT", "MISS", "HIT"]
    assert (await read(node, "b"))[1] == ["MISS"], "it is not tried again"
    counters = (await node.tier(ANY_TIER)).counters
    assert (counters.corrupt, counters.lost) == ((1, 0) if why == "CORRUPT" else (0, 1))
    await node.store("b", tier=ANY_TIER)
    assert (await read(node, "b"))[0] == [payload("b")]
    await node.node.tiers[0].keeping.store.flush()  # type: ignore[union-attr]
    assert len(ground.names()) == 3


@each_harm
async def test_what_was_harmed_stays_away_after_a_restart(
    serve: Serve, ground: Ground, harm: tuple[Harm, str, str]
) -> None:
    """Found by a load before the restart, or at the latest by the first load after it."""
    node = await serve(ground.tier())
    await node.store("a", "b", "c", tier=ANY_TIER)
    harm[0](ground, name_of(ground, payload("b")))

    node = await node.again(serve, ground.tier())
    data, _ = await read(node, "a", "b", "c")

    assert data == [payload("a"), None, payload("c")]
    assert await node.held(ANY_TIER) == {block_hash("a"), block_hash("c")}
    await node.store("b", tier=ANY_TIER)
    node = await node.again(serve, ground.tier())
    assert (await read(node, "a", "b", "c"))[0] == payloads("a", "b", "c")


async def test_blocks_in_each_others_place_are_never_taken_for_each_other(
    serve: Serve, ground: Ground
) -> None:
    """Both are whole, and both are damage, before and after a restart."""
    node = await serve(ground.tier())
    await node.store("a", "b", "c", "d", "e", tier=ANY_TIER)
    for one, other in ("ab", "cd"):
        names = [name_of(ground, payload(each)) for each in (one, other)]
        data = [ground.read(name) for name in names]
        ground.write(names[0], data[1])
        ground.write(names[1], data[0])

    first = await read(node, "a", "b")
    node = await node.again(serve, ground.tier())
    second = await read(node, "a", "b", "c", "d", "e")

    assert first == ([None] * 2, ["CORRUPT"] * 2)
    assert second == ([None] * 4 + [payload("e")], ["MISS"] * 4 + [IN_ORDER])
    assert await node.held(ANY_TIER) == {block_hash("e")}
    assert (await node.tier(ANY_TIER)).counters.corrupt == 2


async def test_a_link_in_the_place_of_a_block_is_not_followed(
    serve: Serve, follow: Follow, tmp_path: Path
) -> None:
    """It is damage, whatever it leads to, and what it leads to stays."""
    ground = Directory(tmp_path / "blocks-of-a-node")
    node = await serve(ground.tier())
    await node.store("a", "b", tier=ANY_TIER)
    follower = await follow(node)
    name = name_of(ground, payload("b"))
    canary = tmp_path / "canary"
    canary.write_bytes(ground.read(name))
    path = ground.path / "blocks" / name[:2] / name
    path.unlink()
    path.symlink_to(canary)

    data, told = await read(node, "a", "b")
    await node.store("b", tier=ANY_TIER)

    assert (data, told) == ([payload("a"), None], [IN_ORDER, "CORRUPT"])
    assert (await follower.news())[0].reason == "CORRUPT"
    assert canary.read_bytes().endswith(payload("b"))
