"""Spaces: known while a slot or an offer refers to them, and forgotten after."""

import gc

import pytest

from kvtier.server.tiers.spaces import NamespaceInfo, Spaces
from kvtier.v1.block_pb2 import BlockRun
from kvtier.wire.errors import KvtierError
from tests.contract.support import hashes, namespace, run

from .support import LocalNode


def test_a_space_outlives_the_eviction_of_all_its_blocks_by_its_own_offer(
    node: LocalNode,
) -> None:
    """An offer that evicts every block of its scope is found under that scope all the same."""
    node.store("a", "b", "c", "d")

    node.store("e", "f", "g", "h")

    assert node.look_up("e", "f", "g", "h", "a") == ["HIT"] * 4 + ["MISS"]
    assert len(node.node.spaces) == 1


def test_a_space_is_forgotten_with_its_last_block(node: LocalNode) -> None:
    """A scope that no block is in any more costs nothing."""
    node.store("a", scope=b"tenant")

    node.store("w", "x", "y", "z")

    assert len(node.node.spaces) == 1
    assert node.look_up("a", scope=b"tenant") == ["MISS"]


def test_a_space_that_comes_back_has_the_keys_that_it_had(node: LocalNode) -> None:
    """What is remembered by a block's key is found again, also after all of a scope was gone."""
    spaces, namespace = node.node.spaces, node.node.registry.get(node.namespace)
    first = spaces.use(namespace, 0, b"tenant")
    spaces.release(first)
    other = spaces.use(namespace, 0, b"other")

    again = spaces.use(namespace, 0, b"tenant")

    assert again.prefix == first.prefix != other.prefix
    assert len(spaces) == 2


def test_prefixes_of_spaces_out_of_use_are_bounded(
    node: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scopes that come and go leave the prefixes of only the last ones behind."""
    monkeypatch.setattr("kvtier.server.tiers.spaces._KEPT_PREFIXES", 2)
    spaces, namespace = node.node.spaces, node.node.registry.get(node.namespace)
    prefixes = []
    for scope in (b"a", b"b", b"c", b"c", b"a"):
        space = spaces.use(namespace, 0, scope)
        spaces.release(space)
        prefixes.append(space.prefix)

    assert prefixes[2] == prefixes[3]
    assert len(set(prefixes)) == 4


def test_a_deleted_namespace_leaves_only_prefixes_behind() -> None:
    """Its description is not kept; registered anew it has the keys that it had."""
    spaces, print_ = Spaces(), b"deleted namespace".ljust(32)
    old = spaces.use(NamespaceInfo.of(print_, namespace()), 0, b"tenant")
    prefix = old.prefix
    spaces.release(old)
    del old

    left = [each for each in gc.get_objects() if type(each) is NamespaceInfo]
    again = spaces.use(NamespaceInfo.of(print_, namespace()), 0, b"tenant")

    assert [each for each in left if each.fingerprint == print_] == []
    assert again.prefix == prefix


def test_what_outlives_a_deletion_shares_no_key_with_the_new_registration() -> None:
    """While slots of the old one drain the new one has a prefix of its own, also afterwards."""
    spaces, print_ = Spaces(), bytes(32)
    old = spaces.use(NamespaceInfo.of(print_, namespace()), 0, b"")
    new = spaces.use(NamespaceInfo.of(print_, namespace()), 0, b"")
    spaces.release(old)

    third = spaces.use(NamespaceInfo.of(print_, namespace()), 0, b"")

    assert len({old.prefix, new.prefix}) == 2
    assert third.prefix == old.prefix


@pytest.mark.parametrize(
    "refused",
    [
        run("a", "b", "c", "d", "e", scope=b"tenant"),
        run("a", scope=b"tenant", start=1),
        BlockRun(scope=b"tenant", block_hashes=hashes("a"), token_ids=[1]),
    ],
    ids=["no room", "bad position", "bad token ids"],
)
def test_a_refused_offer_leaves_no_space_behind(node: LocalNode, refused: BlockRun) -> None:
    """An offer to a new scope that is refused leaves nothing of the scope."""
    with pytest.raises(KvtierError):
        node.prepare(run("z", scope=b"other"), refused)

    assert len(node.node.spaces) == 0
