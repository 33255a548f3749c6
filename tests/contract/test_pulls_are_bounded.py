"""A pull reaches listed peers only, and takes no more than it needs."""

import asyncio

import grpc
import grpc.aio
import pytest

from kvtier.client import DeniedError, ExhaustedError, InvalidArgumentError
from kvtier.wire.errors import Reason
from tests.waiting import until

from .conftest import Serve
from .copying import copy_blocks, nothing_is_held
from .fake_peer import FakePeer
from .pulls import all_of, closed, dialling, fake, node, pull
from .support import Serving, cpu_tier, hash_set, payloads, run

__all__ = ["closed", "fake", "node"]


@pytest.mark.parametrize("spelt", ["127.0.0.1:0{}", "localhost:{}", "unlisted.invalid:{}", ""])
async def test_who_is_not_listed_is_not_dialled(serve: Serve, closed: str, spelt: str) -> None:
    """Not even by another name of a peer that is: nothing is opened, no name is looked up."""
    node = await serve(cpu_tier(4), peers=[closed])
    wanted = spelt.format(closed.rpartition(":")[2])

    with dialling() as dialled, pytest.raises(DeniedError) as denied:
        await pull(node, wanted, 1)

    assert dialled == []
    assert denied.value.reason == Reason.PEER_NOT_ALLOWED
    assert denied.value.code is grpc.StatusCode.PERMISSION_DENIED
    assert repr(wanted) in denied.value.message
    nothing_is_held(node)


async def test_nothing_is_dialled_before_it_is_needed(serve: Serve, fake: FakePeer) -> None:
    """A node that lists peers opens no connection at its start, nor for blocks that it has."""
    node = await serve(cpu_tier(4), peers=[fake.endpoint])
    await node.store(1)
    fake.act = all_of(2)

    with dialling() as dialled:
        present = await pull(node, fake.endpoint, 1)
        before = list(dialled)
        await pull(node, fake.endpoint, 2)

    assert (present.results, before) == (["PRESENT"], [])
    assert [target for target, _ in dialled] == [f"dns:///{fake.endpoint}"]


async def test_room_is_taken_for_what_is_sent(serve: Serve) -> None:
    """A block that the peer has not takes nobody's room, and blocks that it has take theirs."""
    peer = await serve(cpu_tier(32))
    node = await serve(cpu_tier(16), peers=[peer.endpoint])
    for block in range(16):
        await node.store(block)
    await peer.store("x", "z")

    copied = await pull(node, peer.endpoint, "v", "w", "x", "y", "z")

    assert copied.results == ["MISS", "MISS", "COPIED", "MISS", "COPIED"]
    assert await node.held() == hash_set([*range(2, 16), "x", "z"])


async def test_a_block_named_often_is_spared_once(serve: Serve) -> None:
    """A block of the call that is there already takes one slot, however often it is named."""
    peer = await serve(cpu_tier(32))
    node = await serve(cpu_tier(8), peers=[peer.endpoint])
    for block in range(8):
        await node.store(block)
    await peer.store("x")

    often = [run(7)] * 50
    copied = await copy_blocks(node, *often, run("x"), peer=(peer.endpoint, "cpu0"), to="cpu0")

    assert copied.results == ["PRESENT"] * 50 + ["COPIED"]
    assert await node.held() == hash_set([*range(1, 8), "x"])


async def test_pulls_are_limited_like_other_transfers(serve: Serve, fake: FakePeer) -> None:
    """Past limits.transfers a pull is refused, told when to try again, and nothing is asked."""
    node = await serve(cpu_tier(8), peers=[fake.endpoint], limits={"transfers": 1})
    call = asyncio.create_task(pull(node, fake.endpoint, 1))
    await until(lambda: fake.asked)

    with pytest.raises(ExhaustedError, match=r"limits\.transfers") as refused:
        await pull(node, fake.endpoint, 2)

    assert refused.value.retry_after
    assert len(fake.asked) == 1
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


async def test_a_run_that_leaves_a_gap_is_refused(node: Serving, fake: FakePeer) -> None:
    """As an offer would be: a run begins where its resident parent ends."""
    await node.store(1)

    with pytest.raises(InvalidArgumentError, match="start_position"):
        await copy_blocks(node, run(2, after=1, start=64), peer=(fake.endpoint, "cpu0"), to="cpu0")

    assert fake.asked == []


async def test_a_peer_that_says_nothing_holds_up_no_store(serve: Serve, fake: FakePeer) -> None:
    """Pulls that wait for their first message have no share of the memory of writes."""
    node = await serve(
        cpu_tier(32), peers=[fake.endpoint], limits={"transfer_bytes": "8MiB"}, peer_timeout=60
    )
    calls = [asyncio.create_task(pull(node, fake.endpoint, block)) for block in range(8)]
    await until(lambda: len(fake.asked) == len(calls))

    async with asyncio.timeout(10):
        await node.store("mine")

    assert await node.load("mine") == payloads("mine")
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
