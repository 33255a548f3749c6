"""A view of what nodes hold, folded from their events."""

from kvtier.client import BlockIndex, Quality, TierOf
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import (
    BlockStored,
)
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.namespaces import fingerprint

from .indexing import apply, chain_of, key, keys
from .messages import (
    FINGERPRINT,
    OTHER,
    OTHER_FINGERPRINT,
    Script,
    cleared,
    removed,
    stored,
)


def test_a_snapshot_becomes_the_view(index: BlockIndex, script: Script) -> None:
    """After synced the view is exact at the position, and names every tier and block."""
    apply(index, *script.start(stored(1, 2), stored(3, tier="gpu0")))

    assert index.nodes() == ["node"]
    assert index.tiers("node") == ["cpu0", "gpu0"]
    assert index.blocks("node", "cpu0") == keys(1, 2)
    assert index.blocks("node", "gpu0") == keys(3)
    assert index.count("node", "cpu0") == 2
    assert index.position("node") == Position(epoch=7, sequence=0)
    assert index.quality("node") is Quality.EXACT


def test_batches_move_the_view_and_its_position(index: BlockIndex, script: Script) -> None:
    """Stores add, removals take away, and progress moves the position alone."""
    apply(
        index,
        *script.start(stored(1, 2)),
        script.batch(removed(1), stored(3)),
        script.progress(skipped=2),
    )

    assert index.blocks("node", "cpu0") == keys(2, 3)
    assert index.position("node") == Position(epoch=7, sequence=3)
    assert index.bad_events == 0


def test_within_a_batch_clears_and_removals_come_before_stores(
    index: BlockIndex, script: Script
) -> None:
    """A block that is removed and stored in one batch is there after it."""
    apply(index, *script.start(stored(1)), script.batch(stored(1), removed(1)))
    assert index.blocks("node", "cpu0") == keys(1)

    apply(index, script.batch(stored(2), cleared()))

    assert index.blocks("node", "cpu0") == keys(2)


def test_the_old_view_is_served_until_the_new_one_is_complete(
    index: BlockIndex, script: Script
) -> None:
    """A rebuild shows neither half of a snapshot nor a mixture; synced swaps it in whole."""
    apply(index, *script.start(stored(1, 2)), script.batch(stored(3)))

    apply(index, script.reset(), script.page(stored(2)), script.batch(stored(9), removed(7)))

    assert index.blocks("node", "cpu0") == keys(1, 2, 3)
    assert index.prefix(FINGERPRINT, 0, b"", chain_of(9)).nodes == {"node": 0}
    assert index.locate(key(9)) == ()
    assert index.quality("node") is Quality.STALE
    assert index.position("node") == Position(epoch=7, sequence=1)

    apply(index, script.page(stored(4)), script.synced(3))

    assert index.blocks("node", "cpu0") == keys(2, 4, 9)
    assert index.quality("node") is Quality.EXACT
    assert index.position("node") == Position(epoch=7, sequence=2)


def test_a_restarted_node_leaves_nothing_of_its_first_life(index: BlockIndex) -> None:
    """A new epoch brings a reset, and only what the new life tells is there after it."""
    apply(index, *Script(epoch=7).start(stored(1, 2, 3)))
    second = Script(epoch=8)

    apply(index, *second.start(), second.batch(stored(3, 4)))

    assert index.blocks("node", "cpu0") == keys(3, 4)
    assert index.locate(key(1)) == ()
    assert index.position("node") == Position(epoch=8, sequence=1)


def test_a_second_reset_throws_the_unfinished_snapshot_away(
    index: BlockIndex, script: Script
) -> None:
    """What a snapshot brought that never ended is nowhere."""
    apply(index, script.reset(), script.namespace(), script.page(stored(1, 2)))

    apply(index, *script.start(stored(3)))

    assert index.blocks("node", "cpu0") == keys(3)
    assert index.quality("node") is Quality.EXACT


def test_a_clear_is_scoped_to_its_tier(index: BlockIndex, script: Script) -> None:
    """Clearing one tier leaves the copies in the others, and stores after it survive."""
    apply(index, *script.start(stored(1, 2, tier="gpu0"), stored(2, 3)))

    apply(index, script.batch(cleared("gpu0")), script.batch(stored(4, tier="gpu0")))

    assert index.blocks("node", "gpu0") == keys(4)
    assert index.blocks("node", "cpu0") == keys(2, 3)
    assert index.locate(key(2)) == (("node", "cpu0"),)


def test_a_clear_of_a_namespace_leaves_the_others(index: BlockIndex, script: Script) -> None:
    """Only blocks of the named namespace go."""
    apply(
        index,
        *script.start(),
        script.namespace(OTHER),
        script.batch(stored(1, 2), stored(1, namespace=OTHER_FINGERPRINT)),
        script.batch(cleared(namespace=FINGERPRINT)),
    )

    assert index.blocks("node", "cpu0") == {key(1, OTHER_FINGERPRINT)}


def test_a_clear_of_one_node_leaves_the_other(index: BlockIndex) -> None:
    """Of two nodes with blocks in common, the cleared one shows exactly what it stored since."""
    one, two = Script("one"), Script("two")
    apply(index, *one.start(stored(*range(100))), *two.start(stored(*range(80, 180))))

    apply(index, one.batch(cleared()), one.batch(stored(*range(500, 510))))

    assert index.blocks("one", "cpu0") == keys(*range(500, 510))
    assert index.blocks("two", "cpu0") == keys(*range(80, 180))


def test_a_removal_from_one_tier_leaves_the_other(index: BlockIndex, script: Script) -> None:
    """A block that leaves GPU memory is still in host memory."""
    apply(index, *script.start(stored(1, tier="gpu0"), stored(1)))

    apply(index, script.batch(removed(1, tier="gpu0")))

    assert index.locate(key(1)) == (("node", "cpu0"),)


def test_an_unknown_member_does_not_stop_a_removal(index: BlockIndex, script: Script) -> None:
    """The other blocks of the event go all the same."""
    apply(index, *script.start(stored(1, 2, 3)), script.batch(removed(1, 99, 2)))

    assert index.blocks("node", "cpu0") == keys(3)
    assert index.bad_events == 0


def test_groups_scopes_and_namespaces_are_apart(index: BlockIndex, script: Script) -> None:
    """One hash in two groups, scopes or namespaces is as many blocks."""
    apply(
        index,
        *script.start(),
        script.namespace(OTHER),
        script.batch(
            stored(1),
            stored(1, group=1),
            stored(1, scope=b"x"),
            stored(1, namespace=OTHER_FINGERPRINT),
        ),
        script.batch(removed(1)),
    )

    assert index.locate(key(1)) == ()
    assert index.locate(key(1, group=1)) == (("node", "cpu0"),)
    assert index.locate(key(1, scope=b"x")) == (("node", "cpu0"),)
    assert index.locate(key(1, OTHER_FINGERPRINT)) == (("node", "cpu0"),)


def test_a_hole_ends_the_prefix_and_nodes_are_not_stitched(index: BlockIndex) -> None:
    """What lies behind a hole does not count, though another node could fill it."""
    one, two = Script("one"), Script("two")
    apply(index, *one.start(stored(1, 2, 3, 4)), *two.start(stored(2)))

    apply(index, one.batch(removed(2)))

    lengths = index.prefix(FINGERPRINT, 0, b"", chain_of(1, 2, 3, 4))
    assert lengths.tiers == {("one", "cpu0"): 1, ("two", "cpu0"): 0}
    assert lengths.nodes == {"one": 1, "two": 0}
    assert index.blocks("one", "cpu0") == keys(1, 3, 4)


def test_the_tiers_of_a_node_are_taken_together(index: BlockIndex, script: Script) -> None:
    """A node's prefix goes on from one of its tiers to the next."""
    apply(index, *script.start(stored(1, 3, tier="gpu0"), stored(2)))

    lengths = index.prefix(FINGERPRINT, 0, b"", chain_of(1, 2, 3, 4))

    assert lengths.tiers == {("node", "gpu0"): 1, ("node", "cpu0"): 0}
    assert lengths.nodes == {"node": 3}


def test_orphans_are_kept(index: BlockIndex, script: Script) -> None:
    """A block whose parent was never seen is there; the prefix stops at the parent."""
    apply(index, *script.start(), script.batch(stored(2)), script.batch(stored(3)))

    assert index.locate(key(2)) == index.locate(key(3)) == (("node", "cpu0"),)
    assert index.prefix(FINGERPRINT, 0, b"", chain_of(1, 2, 3)).nodes == {"node": 0}


def test_hashes_are_told_apart_by_every_byte(index: BlockIndex, script: Script) -> None:
    """Hashes that share their head, their tail or their sign bit stay distinct."""
    wide = Namespace()
    wide.CopyFrom(OTHER)
    wide.hash_width = 32
    space = fingerprint(wide)
    hashes = [b"\xff" * 8 + b"a" * 24, b"\xff" * 8 + b"b" * 24, b"c" * 24 + b"a" * 8]
    event = BlockStored(tier="cpu0", namespace=space, block_hashes=b"".join(hashes))

    apply(index, *script.start(), script.namespace(wide), script.batch(event))

    assert {key.block_hash for key in index.blocks("node", "cpu0")} == set(hashes)


def test_masks_tell_which_of_some_tiers_hold_each_block(index: BlockIndex, script: Script) -> None:
    """Bit i stands for the tier at place i, in the order asked for; unknown tiers hold nothing."""
    other = Script("other")
    apply(index, *script.start(stored(1, 2), stored(2, tier="gpu0")))
    apply(index, *other.start(stored(2, 3)), script.batch(removed(1)))
    tiers = [
        TierOf("other", "cpu0"),
        TierOf("nobody", "cpu0"),
        TierOf("node", "gpu0"),
        TierOf("node", "cpu0"),
        TierOf("node", "fs0"),
    ]

    masks = index.masks(FINGERPRINT, 0, b"", chain_of(1, 2, 3, 4), tiers)

    assert masks == [0, 0b1101, 0b0001, 0]
    assert index.masks(OTHER_FINGERPRINT, 0, b"", chain_of(1), tiers) == [0]


def test_masks_are_of_the_view_that_queries_see(index: BlockIndex, script: Script) -> None:
    """A snapshot that is being built is not told of before it is whole."""
    apply(index, *script.start(stored(1)), script.reset(), script.page(stored(2)))
    tiers = [TierOf("node", "cpu0")]

    during = index.masks(FINGERPRINT, 0, b"", chain_of(1, 2), tiers)
    apply(index, script.synced(1))
    after = index.masks(FINGERPRINT, 0, b"", chain_of(1, 2), tiers)

    assert (during, after) == ([1, 0], [0, 1])
