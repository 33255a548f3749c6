"""Somebody removed all that a tier keeps, or its descriptions, while the node runs."""

import shutil
from collections.abc import Callable

import pytest

from tests.s3.server import S3Server, s3_client
from tests.s3.shelves import Place

from .conftest import Follow, Serve
from .folding import listed
from .grounds import Directory, Ground, Prefix
from .support import ANY_TIER, Serving, hash_set, namespace, payloads
from .test_an_object_store_in_trouble import OBJ, state_comes_to

OLD, NEW = tuple("abc"), tuple("defg")


def everything(ground: Ground) -> None:
    """Remove all that lies there, as with `rm -rf`."""
    if isinstance(ground, Directory):
        for found in ground.path.iterdir():
            shutil.rmtree(found) if found.is_dir() else found.unlink()
    for path in ground.paths():
        ground.take(path)


def descriptions(ground: Ground) -> None:
    """Remove what is said of namespaces."""
    for path in ground.paths():
        if path.startswith("namespaces/"):
            ground.take(path)


async def finds(node: Serving, *blocks: object) -> None:
    """See that a node has these blocks and no others, exact."""
    assert await node.held(ANY_TIER) == hash_set(blocks)
    assert await node.load(*blocks, tier=ANY_TIER) == payloads(*blocks)


async def test_an_emptied_ground_is_used_again(
    serve: Serve, follow: Follow, ground: Ground
) -> None:
    """What was there is lost and told of; what is stored next is found by the next start."""
    node = await serve(ground.tier())
    await node.store(*OLD, tier=ANY_TIER)
    follower = await follow(node)
    everything(ground)

    assert await node.load(*OLD, tier=ANY_TIER) == [None] * len(OLD)
    assert [each.reason for each in await follower.news()] == ["LOST"] * len(OLD)
    await node.store(*NEW, tier=ANY_TIER)
    await finds(node, *NEW)

    node = await node.again(serve, ground.tier())
    await finds(node, *NEW)
    assert [each.name for each in await node.client.list_namespaces()] == ["llama"]


@pytest.mark.parametrize("remove", [everything, descriptions])
async def test_what_is_stored_before_anybody_notices_is_not_lost_for_good(
    serve: Serve, ground: Ground, remove: Callable[[Ground], None]
) -> None:
    """The node starts again; blocks whose namespace nobody knows wait for who describes it."""
    node = await serve(ground.tier())
    await node.store(*OLD, tier=ANY_TIER)
    remove(ground)
    await node.store(*NEW, tier=ANY_TIER)

    node = await node.again(serve, ground.tier())
    await node.client.register_namespace(namespace())
    await node.store("h", tier=ANY_TIER)
    node = await node.again(serve, ground.tier())

    await finds(node, *(OLD if remove is descriptions else ()), *NEW, "h")


async def test_a_bucket_that_is_made_again_is_used_again(serve: Serve, follow: Follow) -> None:
    """Without it nothing is called lost; when it is there, empty, the tier heals."""
    with S3Server() as server:
        s3_client(server.endpoint).create_bucket(Bucket="kvtier-emptied")
        prefix = Prefix(Place(server.endpoint, "kvtier-emptied"))
        tier = prefix.tier(OBJ, io_timeout=1.0)
        node = await serve(tier)
        await node.store(*OLD, tier=OBJ)
        follower = await follow(node)
        server.kill()
        server.start()

        assert await node.load(*OLD, tier=OBJ) == [None] * len(OLD)
        await state_comes_to(node.client, "READ_ONLY bucket kvtier-emptied does not exist")
        assert await node.held(OBJ) == hash_set(OLD)
        s3_client(server.endpoint).create_bucket(Bucket="kvtier-emptied")
        await state_comes_to(node.client, "READY ")
        await node.store(*NEW, tier=OBJ)
        assert await node.load(*OLD, tier=OBJ) == [None] * len(OLD)

        await follower.settle()
        assert follower.fold.view == await listed(node.client)
        node = await node.again(serve, tier)
        assert await node.held(OBJ) == hash_set(NEW)
        assert await node.load(*NEW, tier=OBJ) == payloads(*NEW)
        await node.server.drain_and_stop()
