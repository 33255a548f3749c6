"""Peers that refuse, stand still, break off or talk nonsense harm nobody who pulls from them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

import grpc.aio
import pytest
from xxhash import xxh3_64_intdigest

from kvtier.client import DeniedError, ExhaustedError, InvalidArgumentError, UnavailableError
from kvtier.v1.copying_pb2 import CopyBlocksRequest, PeerTier
from kvtier.v1.result_pb2 import READ_RESULT_MISS as MISS
from kvtier.v1.transfer_service_pb2 import ReadBlocksResponse
from kvtier.wire.errors import Reason

from .conftest import Serve
from .copying import Copied, copy_blocks, nothing_is_held
from .fake_peer import Act, FakePeer, Send, faking, message, stand_still
from .support import Serving, block_hash, blocks_of, cpu_tier, hash_set, payloads, run
from .wire import until

TIMEOUT, PAUSE = 0.4, 1.5
# What a busy machine may add, in seconds.
NOISE = 2.0
# The address of a channel, and the channel.
Dialled = tuple[str, Any]
SETTINGS: dict[str, Any] = {"peer_timeout": TIMEOUT, "peer_pause": PAUSE}


@pytest.fixture(name="fake")
async def _fake() -> AsyncIterator[FakePeer]:
    """A peer that stands still, until a test gives it something to do."""
    async with faking(stand_still) as peer:
        yield peer


@pytest.fixture(name="node")
async def _node(serve: Serve, fake: FakePeer) -> Serving:
    """A node that may pull from it, with room for steps of eight blocks."""
    return await serve(cpu_tier(32), peers=[fake.endpoint], **SETTINGS)


async def pull(node: Serving, endpoint: str, *blocks: object, **more: Any) -> Copied:
    return await copy_blocks(node, run(*blocks), peer=(endpoint, "cpu0"), to="cpu0", **more)


@pytest.fixture(name="closed")
def _closed() -> Iterator[str]:
    """An address at which nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


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


@contextmanager
def dialling() -> Iterator[list[Dialled]]:
    """Note the channels that the node opens to peers: without one there is no connection."""
    dialled: list[Dialled] = []
    opened = grpc.aio.insecure_channel

    def dial(target: str, **settings: Any) -> Any:
        dialled.append((target, opened(target, **settings)))
        return dialled[-1][1]

    with patch("kvtier.server.peers.peer.grpc.aio.insecure_channel", dial):
        yield dialled


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


async def test_a_peer_that_says_nothing_is_given_up(node: Serving, fake: FakePeer) -> None:
    """The call ends after peer_timeout, and says who it was that did not answer."""
    loop = asyncio.get_running_loop()
    began = loop.time()

    with pytest.raises(UnavailableError, match=f"peer {fake.endpoint} sent nothing") as failed:
        await pull(node, fake.endpoint, 1)

    assert TIMEOUT <= loop.time() - began < TIMEOUT + NOISE
    assert failed.value.reason == Reason.PEER_UNREACHABLE
    assert failed.value.retry_after == pytest.approx(PAUSE)
    await until(lambda: not fake.under_way)
    nothing_is_held(node)


async def test_a_peer_that_failed_is_left_alone_for_a_while(node: Serving, fake: FakePeer) -> None:
    """Later calls are answered at once, what needs no peer goes on, and then it is tried again."""
    loop = asyncio.get_running_loop()
    await node.store("there")
    with pytest.raises(UnavailableError):
        await pull(node, fake.endpoint, 1)
    fake.act = all_of(1)

    began = loop.time()
    with pytest.raises(UnavailableError, match="left alone") as refused:
        await pull(node, fake.endpoint, 1)
    there = await pull(node, fake.endpoint, "there")
    took = loop.time() - began
    await asyncio.sleep(refused.value.retry_after or 0)
    again = await pull(node, fake.endpoint, 1)

    assert took < TIMEOUT
    assert 0 < (refused.value.retry_after or 0) <= PAUSE
    assert (there.results, again.results) == (["PRESENT"], ["COPIED"])
    assert len(fake.asked) == 2


def all_of(*blocks: object) -> Act:
    """Send these blocks, in one message."""

    async def act(_hashes: list[bytes], send: Send) -> None:
        await send(message(0, *payloads(*blocks)))

    return act


async def test_a_peer_out_of_reach_is_named(serve: Serve, closed: str) -> None:
    """A refused connection is UNAVAILABLE, at once, and what is known already is told before."""
    node = await serve(cpu_tier(8), peers=[closed], **SETTINGS)
    await node.store("there")
    copied = Copied()

    with pytest.raises(UnavailableError, match=f"peer {closed} failed"):
        await pull(node, closed, "there", 1, into=copied)

    assert copied.told == {0: "PRESENT"}
    nothing_is_held(node)


async def test_a_peer_that_comes_back_is_reached_again(serve: Serve) -> None:
    """A peer that starts on its address anew is found, once the pause is over."""
    peer = await serve(cpu_tier(8))
    node = await serve(cpu_tier(8), peers=[peer.endpoint], peer_pause=0.1)
    await peer.store(1)
    first = await pull(node, peer.endpoint, 1)
    await peer.server.drain_and_stop()
    with pytest.raises(UnavailableError):
        await pull(node, peer.endpoint, 2)

    again = await serve(cpu_tier(8), listen=peer.endpoint)
    await again.store(2)
    await asyncio.sleep(0.2)
    second = await pull(node, peer.endpoint, 2)

    assert (first.results, second.results) == (["COPIED"], ["COPIED"])


@pytest.mark.parametrize("how", ["breaks off", "stands still", "ends too early"])
async def test_what_came_whole_before_a_failure_stays(
    node: Serving, fake: FakePeer, how: str
) -> None:
    """The blocks that came are COPIED, the others FAILED, also those of later steps."""

    async def act(_hashes: list[bytes], send: Send) -> None:
        half = ReadBlocksResponse(block_index=2, data=payloads(2)[0][:10])
        await send(message(0, *payloads(0, 1)))
        await send(half)
        if how == "breaks off":
            raise ConnectionResetError
        if how == "stands still":
            await asyncio.Event().wait()

    fake.act = act

    copied = await pull(node, fake.endpoint, *range(20))

    assert copied.results == ["COPIED"] * 2 + ["FAILED"] * 18
    assert len(fake.asked) == 1, "the steps that follow do not wait for it again"
    assert await node.held() == hash_set([0, 1])
    assert await node.load(0, 1) == payloads(0, 1)
    nothing_is_held(node)


NONSENSE: dict[str, list[ReadBlocksResponse | bytes]] = {
    "no message": [b"\xff\xff\xff"],
    "nothing": [ReadBlocksResponse()],
    "a block beyond": [message(7, *payloads("x"))],
    "a result beyond": [ReadBlocksResponse(block_indexes=[9], results=[MISS])],
    "a result without a block": [ReadBlocksResponse(results=[MISS])],
    "an offset beyond": [ReadBlocksResponse(offset=64, data=b"x")],
    "a checksum too few": [ReadBlocksResponse(data=payloads(0)[0])],
    "a checksum too many": [ReadBlocksResponse(checksums=[1, 2], data=payloads(0)[0])],
    "a gap": [ReadBlocksResponse(offset=8, data=b"x" * 56, checksums=[1])],
}


@pytest.mark.parametrize("what", NONSENSE)
async def test_nonsense_is_a_failure_of_the_peer(node: Serving, fake: FakePeer, what: str) -> None:
    """Whatever a peer sends, the caller is told, nothing is stored and nothing is held."""

    async def act(_hashes: list[bytes], send: Send) -> None:
        for each in NONSENSE[what]:
            await send(each)

    fake.act = act
    copied = Copied()
    with suppress(UnavailableError):
        await pull(node, fake.endpoint, 0, 1, into=copied)

    heard = what != "no message"
    assert copied.told == (dict.fromkeys(range(2), "FAILED") if heard else {})
    assert await node.held() == set()
    with pytest.raises(UnavailableError, match=r"broke the protocol.*left alone"):
        await pull(node, fake.endpoint, 0)
    nothing_is_held(node)


async def test_one_pull_that_stands_still_leaves_the_others_alone(
    node: Serving, fake: FakePeer
) -> None:
    """They share a connection, which is left for a new one and closed when they have ended."""

    async def act(hashes: list[bytes], send: Send) -> None:
        if hashes == [block_hash("stuck")]:
            await asyncio.Event().wait()
        body = payloads("slow")[0]
        for offset in range(0, 60, 4):
            await send(ReadBlocksResponse(offset=offset, data=body[offset : offset + 4]))
            await asyncio.sleep(TIMEOUT / 8)
        last = ReadBlocksResponse(offset=60, data=body[60:], checksums=[xxh3_64_intdigest(body)])
        await send(last)

    fake.act = act
    with dialling() as dialled:
        slow = asyncio.create_task(pull(node, fake.endpoint, "slow"))
        with pytest.raises(UnavailableError):
            await pull(node, fake.endpoint, "stuck")
        assert not slow.done()
        assert not closed_channels(dialled)
        copied = await slow

    assert copied.results == ["COPIED"]
    assert len(closed_channels(dialled)) == len(dialled) == 1


async def test_every_failure_closes_its_connection(serve: Serve, closed: str) -> None:
    """However often a peer is tried in vain, nothing piles up."""
    node = await serve(cpu_tier(8), peers=[closed], peer_pause=0)

    with dialling() as dialled:
        for _ in range(5):
            with pytest.raises(UnavailableError):
                await pull(node, closed, 1)

    assert len(closed_channels(dialled)) == len(dialled) == 5


def closed_channels(dialled: list[Dialled]) -> list[str]:
    return [target for target, channel in dialled if channel._channel.closed()]


async def test_a_caller_that_leaves_ends_the_pull(node: Serving, fake: FakePeer) -> None:
    """The call at the peer is cancelled at once, what came is kept, and the rest given back."""
    sent = asyncio.Event()

    async def act(_hashes: list[bytes], send: Send) -> None:
        await send(message(0, *payloads(0, 1)))
        sent.set()
        await asyncio.Event().wait()

    fake.act = act
    call = asyncio.create_task(pull(node, fake.endpoint, *range(4)))
    await sent.wait()
    await node.comes_to({"ready": 2, "pending": 2})
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)

    await until(lambda: not fake.under_way and not node.node.transfers)
    assert await node.gauges() == {"ready": 2}
    nothing_is_held(node)


async def test_who_waited_goes_on_when_the_first_caller_leaves(
    node: Serving, fake: FakePeer
) -> None:
    """A caller that leaves takes nobody's blocks with it."""
    first = asyncio.create_task(pull(node, fake.endpoint, 1))
    await until(lambda: fake.asked)
    second = asyncio.create_task(pull(node, fake.endpoint, 1))
    await asyncio.sleep(0.05)
    fake.act = all_of(1)
    first.cancel()

    copied = await second

    assert copied.results == ["COPIED"]
    assert len(fake.asked) == 2
    await asyncio.gather(first, return_exceptions=True)


async def test_a_deadline_ends_the_pull(node: Serving, fake: FakePeer) -> None:
    """A caller with a deadline is gone when it has passed, and so is its call at the peer."""
    request = CopyBlocksRequest(
        namespace=node.namespace,
        runs=[run(1)],
        to_tier="cpu0",
        from_peer=PeerTier(endpoint=fake.endpoint, tier="cpu0"),
    )
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        method: Any = channel.unary_stream("/kvtier.v1.TierService/CopyBlocks")
        with pytest.raises(grpc.aio.AioRpcError) as late:
            async for _ in method(request.SerializeToString(), timeout=0.2):
                pass

    assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await until(lambda: not fake.under_way and not node.node.transfers)
    nothing_is_held(node)


async def test_a_caller_may_give_a_copy_a_time(node: Serving, fake: FakePeer) -> None:
    """The client sets no deadline; a timeout around it ends the call here and at the peer."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await pull(node, fake.endpoint, 1)

    await until(lambda: not fake.under_way and not node.node.transfers)
    nothing_is_held(node)


async def test_a_clear_ends_what_is_on_its_way(node: Serving, fake: FakePeer) -> None:
    """Blocks that had not come are DELETED, and what comes later is not stored."""
    sent, go = asyncio.Event(), asyncio.Event()

    async def act(_hashes: list[bytes], send: Send) -> None:
        await send(message(0, *payloads(0)))
        sent.set()
        await go.wait()
        await send(message(1, *payloads(1, 2)))

    fake.act = act
    call = asyncio.create_task(pull(node, fake.endpoint, 0, 1, 2))
    await sent.wait()
    await node.comes_to({"ready": 1, "pending": 2})
    await node.client.clear("cpu0")
    go.set()
    copied = await call

    assert copied.results == ["COPIED", "DELETED", "DELETED"]
    assert await node.gauges() == {}
    nothing_is_held(node)


async def test_a_block_deleted_by_force_does_not_come(node: Serving, fake: FakePeer) -> None:
    """A forced delete of one block leaves those around it alone."""
    sent, go = asyncio.Event(), asyncio.Event()

    async def act(_hashes: list[bytes], send: Send) -> None:
        await send(message(0, *payloads(0)))
        sent.set()
        await go.wait()
        await send(message(1, *payloads(1, 2)))

    fake.act = act
    call = asyncio.create_task(pull(node, fake.endpoint, 0, 1, 2))
    await sent.wait()
    await node.comes_to({"ready": 1, "pending": 2})
    await node.client.delete(node.namespace, [blocks_of(1)], force=True)
    go.set()
    copied = await call

    assert copied.results == ["COPIED", "DELETED", "COPIED"]
    assert await node.held() == hash_set([0, 2])
    nothing_is_held(node)


async def test_blocks_on_their_way_are_pending(node: Serving, fake: FakePeer) -> None:
    """A lookup says so once the peer has answered, and the lease tells whose they are."""
    sent = asyncio.Event()

    async def act(_hashes: list[bytes], send: Send) -> None:
        await send(message(0, *payloads(1)))
        sent.set()
        await asyncio.Event().wait()

    fake.act = act
    call = asyncio.create_task(pull(node, fake.endpoint, 1, 2))
    await sent.wait()
    await node.comes_to({"ready": 1, "pending": 1})

    assert await node.look_up(1, 2) == ["HIT", "HIT_PENDING"]
    assert [lease.owner for lease in node.node.leases] == [f"copy from {fake.endpoint}"]
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


async def test_a_peer_that_has_nothing_costs_no_block(serve: Serve, closed: str) -> None:
    """Nothing is evicted for a peer that says nothing, is not there, or has not the blocks."""
    async with faking(stand_still) as fake:
        peer = await serve(cpu_tier(8))
        endpoints = [peer.endpoint, fake.endpoint, closed]
        node = await serve(cpu_tier(4), peers=endpoints, **SETTINGS)
        for block in range(4):
            await node.store(block)
        head = (await node.client.get_node()).head

        missed = await pull(node, peer.endpoint, "x", "y")
        for endpoint in (fake.endpoint, closed, closed):
            with pytest.raises(UnavailableError):
                await pull(node, endpoint, "x", "y")

        assert missed.results == ["MISS", "MISS"]
        assert await node.held() == hash_set(range(4))
        assert (await node.client.get_node()).head == head
        nothing_is_held(node)


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


async def test_a_stop_waits_for_pulls_and_begins_no_step(serve: Serve, fake: FakePeer) -> None:
    """A drain lets the step under way end; the caller is told why no other began."""
    go = asyncio.Event()

    async def act(hashes: list[bytes], send: Send) -> None:
        await go.wait()
        await send(message(0, *payloads(*range(len(hashes)))))

    fake.act = act
    node = await serve(cpu_tier(8), peers=[fake.endpoint], drain_timeout=10)
    copied = Copied()
    call = asyncio.create_task(pull(node, fake.endpoint, *range(4), into=copied))
    await until(lambda: fake.asked)

    stop = asyncio.create_task(node.server.drain_and_stop())
    await asyncio.sleep(0.1)
    assert node.node.busy
    assert not stop.done()
    go.set()
    with pytest.raises(UnavailableError, match="draining"):
        await call
    await stop

    assert copied.told == {0: "COPIED", 1: "COPIED"}
    assert len(fake.asked) == 1


async def test_a_stop_does_not_wait_for_a_peer_for_ever(serve: Serve, fake: FakePeer) -> None:
    """When drain_timeout has passed a pull is cancelled, at the peer too."""
    node = await serve(cpu_tier(8), peers=[fake.endpoint], drain_timeout=0.2, peer_timeout=60)
    call = asyncio.create_task(pull(node, fake.endpoint, 1))
    await until(lambda: fake.asked)

    async with asyncio.timeout(5):
        await node.server.drain_and_stop()

    with pytest.raises(UnavailableError):
        await call
    await until(lambda: not fake.under_way)
    nothing_is_held(node)


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


async def test_a_busy_peer_is_no_failed_peer(serve: Serve) -> None:
    """A peer that is at its limit of transfers says when to try again, and is not left alone."""
    peer = await serve(cpu_tier(8), limits={"transfers": 1})
    node = await serve(cpu_tier(8), peers=[peer.endpoint])
    await peer.store(1)
    peer.node.transfers += 1

    with pytest.raises(ExhaustedError, match=f"peer {peer.endpoint} refused") as refused:
        await pull(node, peer.endpoint, 1)
    peer.node.transfers -= 1
    copied = await pull(node, peer.endpoint, 1)

    assert refused.value.retry_after
    assert copied.results == ["COPIED"]


async def test_a_draining_peer_is_out_of_reach(serve: Serve) -> None:
    """Its refusal is passed on by name."""
    peer = await serve(cpu_tier(8))
    node = await serve(cpu_tier(8), peers=[peer.endpoint])
    await peer.store(1)
    peer.node.closing = True

    with pytest.raises(UnavailableError, match=rf"{peer.endpoint}.*DRAINING"):
        await pull(node, peer.endpoint, 1)


async def test_a_run_that_leaves_a_gap_is_refused(node: Serving, fake: FakePeer) -> None:
    """As an offer would be: a run begins where its resident parent ends."""
    await node.store(1)

    with pytest.raises(InvalidArgumentError, match="start_position"):
        await copy_blocks(node, run(2, after=1, start=64), peer=(fake.endpoint, "cpu0"), to="cpu0")

    assert fake.asked == []
