"""What the metrics of a proxy say of the nodes behind it and of its followers."""

from .conftest import Serve
from .proxies import ServeProxy, following_proxy, serve_proxy
from .scraping import metrics_come_to
from .support import cpu_tier

__all__ = ["serve_proxy"]

METRICS = "127.0.0.1:0"


async def test_nodes_are_told_by_their_states(serve: Serve, serve_proxy: ServeProxy) -> None:
    """A node that goes is down; the lag of the one that stays is known."""
    near, far = await serve(cpu_tier(8)), await serve(cpu_tier(8))
    proxy = await serve_proxy(near.endpoint, far.endpoint, metrics_listen=METRICS)
    address = proxy.serving.observing.metrics_address
    one, two = near.node.node_id, far.node.node_id
    both = await metrics_come_to(
        address, lambda found: found.of("kvtier_proxy_sources").get("live") == 2
    )
    await far.server.drain_and_stop()

    left = await metrics_come_to(
        address, lambda found: found.of("kvtier_proxy_sources").get("down") == 1
    )

    assert both.of("kvtier_proxy_source_up") == {one: 1, two: 1}
    assert both.of("kvtier_proxy_source_lag_batches") == {one: 0, two: 0}
    assert left.of("kvtier_proxy_source_up") == {one: 1, two: 0}
    assert left.of("kvtier_proxy_sources") == {
        "connecting": 0,
        "snapshot": 0,
        "live": 1,
        "suspect": 0,
        "down": 1,
    }
    assert left.total("kvtier_node_info") == 1


async def test_followers_and_their_resets_are_counted(
    serve: Serve, serve_proxy: ServeProxy
) -> None:
    """A follower that starts over is reset once for each node, and its streams end."""
    near, far = await serve(cpu_tier(8)), await serve(cpu_tier(8))
    await near.store("A")
    proxy = await serve_proxy(near.endpoint, far.endpoint, metrics_listen=METRICS)
    async with following_proxy(proxy.address) as follower:
        await follower.settle(near.client, far.client)

        metrics = await metrics_come_to(
            proxy.serving.observing.metrics_address,
            lambda found: not found["kvtier_proxy_catch_ups_in_progress"],
        )

    assert metrics["kvtier_followers"] == 1
    assert metrics.of("kvtier_resets_total")["no_position"] == 2
    assert metrics.total("kvtier_rpcs_in_flight", grpc_method="WatchEvents") == 1


async def test_a_proxy_that_drains_says_so(serve: Serve, serve_proxy: ServeProxy) -> None:
    """It is ready once it knows its nodes, and not any more when it sends its followers off."""
    near = await serve(cpu_tier(8))
    proxy = await serve_proxy(near.endpoint, metrics_listen=METRICS)
    address = proxy.serving.observing.metrics_address
    ready = await metrics_come_to(address, lambda found: found["kvtier_ready"])

    proxy._watching.drain()

    after = await metrics_come_to(address, lambda found: found["kvtier_draining"])
    assert (ready["kvtier_draining"], after["kvtier_draining"]) == (0, 1)
