"""Blocks that a node was found not to have."""

import pytest

from kvtier.client.proxy.promotions.verdicts import Verdicts

from .indexing import key
from .manual_time import ManualTime
from .messages import FINGERPRINT, Script, hash_of, stored


@pytest.fixture(name="time")
def _time() -> ManualTime:
    return ManualTime()


@pytest.fixture(name="verdicts")
def _verdicts(time: ManualTime) -> Verdicts:
    return Verdicts(seconds=10.0, limit=3, clock=time.clock)


def test_a_verdict_is_of_one_node_and_block(verdicts: Verdicts) -> None:
    """Other nodes and blocks are not concerned."""
    verdicts.deny("a", key(1))

    hashes = [hash_of(1), hash_of(2)]
    assert verdicts.denied("a", FINGERPRINT, 0, b"", hashes) == [True, False]
    assert verdicts.denied("b", FINGERPRINT, 0, b"", hashes) == [False, False]
    assert verdicts.denied("a", FINGERPRINT, 1, b"", hashes) == [False, False]


def test_a_verdict_ends_with_its_time(verdicts: Verdicts, time: ManualTime) -> None:
    """One that was repeated lasts from then on."""
    verdicts.deny("a", key(1))
    verdicts.deny("a", key(2))
    time.advance(6.0)
    verdicts.deny("a", key(1))
    time.advance(5.0)

    assert verdicts.denies("a", key(1))
    assert not verdicts.denies("a", key(2))
    assert len(verdicts) == 1


@pytest.mark.parametrize("snapshot", [True, False])
def test_a_verdict_ends_with_the_nodes_own_word(verdicts: Verdicts, snapshot: bool) -> None:
    """In a batch or in a snapshot; what another node stored changes nothing."""
    for number in (1, 2):
        verdicts.deny("a", key(number))
    other, own = Script("b"), Script("a")

    for message in other.start(stored(1, 2)):
        verdicts.hear(message)
    before = len(verdicts)
    for message in own.start(*([stored(1)] if snapshot else [])):
        verdicts.hear(message)
    if not snapshot:
        verdicts.hear(own.batch(stored(1)))

    assert before == 2
    assert not verdicts.denies("a", key(1))
    assert verdicts.denies("a", key(2))


def test_the_oldest_go_when_there_are_too_many(verdicts: Verdicts) -> None:
    """So that they never take more memory than they may."""
    for number in range(5):
        verdicts.deny("a", key(number))

    assert len(verdicts) == 3
    assert [verdicts.denies("a", key(number)) for number in range(5)] == [False] * 2 + [True] * 3


def test_a_node_that_is_gone_is_forgotten(verdicts: Verdicts) -> None:
    """Another keeps its verdicts."""
    verdicts.deny("a", key(1))
    verdicts.deny("b", key(1))

    verdicts.forget("a")

    assert not verdicts.denies("a", key(1))
    assert verdicts.denies("b", key(1))


def test_an_event_that_makes_no_sense_is_passed_over(verdicts: Verdicts) -> None:
    """Hashes of another width take nothing back."""
    verdicts.deny("a", key(1))
    script = Script("a")
    message = script.batch(stored(1))
    message.batches.batches[0].stored[0].block_hashes = b"odd"

    verdicts.hear(message)

    assert verdicts.denies("a", key(1))
