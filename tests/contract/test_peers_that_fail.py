"""Peers that stand still, break off or talk nonsense harm nobody who pulls from them."""

import asyncio
from contextlib import suppress

import pytest
from xxhash import xxh3_64_intdigest

from kvtier.client import ExhaustedError, UnavailableError
from kvtier.v1.result_pb2 import READ_RESULT_MISS as MISS
from kvtier.v1.transfer_service_pb2 import ReadBlocksResponse
from kvtier.wire.errors import Reason
from tests.waiting import until

from .conftest import Serve
from .copying import Copied, nothing_is_held
from .fake_peer import FakePeer, Send, faking, message, stand_still
from .pulls import PAUSE, SETTINGS, TIMEOUT, Dialled, all_of, closed, dialling, fake, node, pull
from .support import Serving, block_hash, cpu_tier, hash_set, payloads

__all__ = ["closed", "fake", "node"]

# What a busy machine may add, in seconds.
NOISE = 2.0


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

    assert took < NOISE
    assert 0 < (refused.value.retry_after or 0) <= PAUSE
    assert (there.results, again.results) == (["PRESENT"], ["COPIED"])
    assert len(fake.asked) == 2


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


async def test_an_old_connection_that_fails_says_nothing_of_the_new_one(
    serve: Serve, fake: FakePeer
) -> None:
    """Once a peer is reached anew, the end of a call from before is that call's alone."""
    go = asyncio.Event()

    async def act(hashes: list[bytes], send: Send) -> None:
        if hashes == [block_hash("old")]:
            await go.wait()
        if hashes in ([block_hash("old")], [block_hash("bad")]):
            raise ConnectionResetError
        await send(message(0, *payloads(1)))

    fake.act = act
    node = await serve(cpu_tier(8), peers=[fake.endpoint], peer_timeout=60, peer_pause=0.3)
    with dialling() as dialled:
        old = asyncio.create_task(pull(node, fake.endpoint, "old"))
        await until(lambda: fake.asked)
        with pytest.raises(UnavailableError) as failed:
            await pull(node, fake.endpoint, "bad")
        await asyncio.sleep(failed.value.retry_after or 0)
        await pull(node, fake.endpoint, 1)
        go.set()
        with pytest.raises(UnavailableError, match="failed"):
            await old
        await node.client.clear("cpu0")
        copied = await pull(node, fake.endpoint, 1)

    assert copied.results == ["COPIED"]
    assert len(dialled) == 2
    assert len(closed_channels(dialled)) == 1


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


async def test_a_proxy_in_the_environment_is_not_used(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pull goes to the peer itself, whatever `http_proxy` says."""
    peer = await serve(cpu_tier(8))
    node = await serve(cpu_tier(8), peers=[peer.endpoint])
    await peer.store(1)
    reached: list[object] = []

    def refuse(_reader: object, writer: asyncio.StreamWriter) -> None:
        reached.append(writer.get_extra_info("peername"))
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        for name in ("no_grpc_proxy", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        for name in ("grpc_proxy", "http_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        copied = await pull(node, peer.endpoint, 1)

    assert copied.results == ["COPIED"]
    assert reached == []
