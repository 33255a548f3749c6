"""What probes ask for, at a node's own address and at a second one that threads answer."""

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import pytest

from kvtier.server.config import NodeConfig
from kvtier.server.health import liveness
from kvtier.server.health.board import LIVENESS, NOT_SERVING
from kvtier.server.lifecycle import TierServer
from kvtier.server.node import Node
from kvtier.server.serving.starting import StartError
from tests.waiting import until

from .conftest import Serve
from .health import check_now, health
from .support import Serving, cpu_tier

SECOND = {"health_listen": "127.0.0.1:0"}
TIERS = "kvtier.v1.TierService"
PATIENCE = 0.5


def second_address(node: Serving) -> str:
    assert node.server.serving.vitals.port is not None
    return node.server.serving.vitals.port.address


@pytest.mark.parametrize("second", [False, True], ids=["own address", "second address"])
async def test_a_name_that_is_not_served_is_not_found(serve: Serve, second: bool) -> None:
    """A probe with a misspelt name fails, and does not pass for good."""
    node = await serve(cpu_tier(4), **SECOND)
    async with health(second_address(node) if second else node.endpoint) as asked:
        known = [await asked.check(name) for name in ("", TIERS, "liveness")]
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await asked.check("kvtier.v1.TireService")

    assert known == ["SERVING"] * 3
    assert error.value.code() is grpc.StatusCode.NOT_FOUND


async def test_all_who_watch_hear_of_changes(serve: Serve) -> None:
    """Also when another one who watched the same name has left; and of no name but theirs."""
    node = await serve(cpu_tier(4))
    async with health(node.endpoint) as asked:
        leaving, staying, unknown = asked.watch(TIERS), asked.watch(TIERS), asked.watch("x")
        first = [await each.next() for each in (leaving, staying, unknown)]
        leaving.call.cancel()
        await asyncio.wait([asyncio.ensure_future(leaving.call.code())])
        alive = asked.watch("liveness")
        assert await alive.next() == "SERVING"

        node.server.hurry()
        await node.client.drain()

        async with asyncio.timeout(10):
            assert await staying.next() == "NOT_SERVING"
        assert await asked.check("liveness") == "SERVING"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(alive.next(), 0.2)

    assert first == ["SERVING", "SERVING", "SERVICE_UNKNOWN"]


async def test_the_second_address_answers_check_alone(serve: Serve) -> None:
    """Also after some who wanted to watch have come and gone; and it holds up no stop."""
    node = await serve(cpu_tier(4), **SECOND)
    async with health(second_address(node)) as asked:
        watches = [asked.watch(TIERS) for _ in range(8)]
        for watch in watches[::2]:
            watch.call.cancel()
        codes = {await watch.call.code() for watch in watches[1::2]}

        assert codes == {grpc.StatusCode.UNIMPLEMENTED}
        assert await asked.check(TIERS) == "SERVING"
        async with asyncio.timeout(10):
            await node.server.drain_and_stop()


async def test_a_watcher_too_many_is_refused_and_probes_are_not(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watching costs a place, asking does not; a place comes back."""
    monkeypatch.setattr("kvtier.server.health.service._MOST_WATCHERS", 1)
    node = await serve(cpu_tier(4))
    async with health(node.endpoint) as asked:
        watch = asked.watch()
        await watch.next()

        with pytest.raises(grpc.aio.AioRpcError) as error:
            await asked.watch().next()
        assert await asked.check() == "SERVING"
        watch.call.cancel()
        await asyncio.sleep(0.2)
        assert await asked.watch().next() == "SERVING"

    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_loop_that_is_stuck_shows_at_the_second_address(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is SERVING while nothing is served, and all is again when the loop gets on."""
    monkeypatch.setattr(liveness, "PATIENCE", PATIENCE)
    node = await serve(cpu_tier(4), **SECOND)
    address = second_address(node)
    assert await asyncio.to_thread(check_now, address, "liveness") == "SERVING"

    said, until_then = "SERVING", time.monotonic() + 20
    while said == "SERVING" and time.monotonic() < until_then:
        said = check_now(address, "liveness")  # the loop is stuck here
    also = check_now(address, TIERS)

    assert (said, also) == ("NOT_SERVING", "NOT_SERVING")
    async with health(address) as asked:
        async with asyncio.timeout(20):
            while await asked.check("liveness") != "SERVING":  # noqa: ASYNC110 - it is polled
                await asyncio.sleep(0.05)
        assert await asked.check(TIERS) == "SERVING"


async def test_a_node_that_can_end_no_lease_any_more_lives_no_more(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both addresses say so of `liveness`, and of nothing else: what works, works."""

    class Unforeseen(BaseException):
        pass

    def fail(_: Node) -> None:
        raise Unforeseen

    node = await serve(cpu_tier(4), **SECOND)
    with monkeypatch.context() as patched:
        patched.setattr(Node, "expire_leases", fail)
        await until(lambda: node.server.serving.vitals.board[LIVENESS] == NOT_SERVING)

    for address in (node.endpoint, second_address(node)):
        async with health(address) as asked:
            assert await asked.check("liveness") == "NOT_SERVING"
            assert await asked.check(TIERS) == "SERVING"


async def test_a_second_address_that_is_taken_ends_the_start(serve: Serve) -> None:
    """The line names the setting, and nothing of the node is left behind."""
    node = await serve(cpu_tier(4), **SECOND)
    taken = second_address(node)
    config = {"node_id": "late", "listen": "127.0.0.1:0", "tiers": [cpu_tier(4)]}
    server = TierServer(NodeConfig.model_validate({**config, "health_listen": taken}))

    with pytest.raises(StartError, match=rf"{taken}.*health_listen"):
        await server.start()
    await server.close()


async def test_a_node_at_a_socket_of_the_file_system_lives(serve: Serve) -> None:
    """Nothing that must go on takes such an address for HOST:PORT."""
    with TemporaryDirectory(prefix="kvtier-") as folder:
        path = Path(folder) / "kv.sock"
        node = await serve(cpu_tier(4), listen=f"unix:{path}", insecure=True)
        async with health(node.endpoint) as asked:
            assert await asked.check("liveness") == "SERVING"
