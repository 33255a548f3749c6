"""Telling of namespaces of one name that nodes describe differently."""

import pytest

from kvtier.client.proxy.clashes import Clashes
from kvtier.v1.event_service_pb2 import WatchEventsResponse
from tests.contract.support import namespace


@pytest.fixture(name="told")
def _told() -> list[str]:
    return []


@pytest.fixture(name="clashes")
def _clashes(told: list[str]) -> Clashes:
    return Clashes(told.append)


def from_node(node: str, **fields: object) -> WatchEventsResponse:
    return WatchEventsResponse(node_id=node, namespace=namespace(**fields))  # type: ignore[arg-type]


def test_a_difference_is_told_once(clashes: Clashes, told: list[str]) -> None:
    """With the name, the field, and both values and nodes; however many nodes say so, how often."""
    for _ in range(2):
        clashes.hear(from_node("a"))
        clashes.hear(from_node("b", tokens_per_block=32))
        clashes.hear(from_node("c", tokens_per_block=32))

    (line,) = told
    assert "'llama' differently: tokens_per_block is 16 at a, 32 at b" in line
    assert "block_bytes" not in line


def test_equal_descriptions_and_other_names_are_fine(clashes: Clashes, told: list[str]) -> None:
    """Other messages are passed over."""
    clashes.hear(from_node("a"))
    clashes.hear(from_node("b"))
    clashes.hear(from_node("c", name="other", tokens_per_block=32))
    clashes.hear(WatchEventsResponse(node_id="d"))

    assert told == []


def test_each_further_description_is_told(clashes: Clashes, told: list[str]) -> None:
    """Against the first that was heard."""
    for node, tokens in (("a", 16), ("b", 32), ("c", 64)):
        clashes.hear(from_node(node, tokens_per_block=tokens))

    assert ["16 at a" in line for line in told] == [True, True]
    assert "64 at c" in told[1]


def test_what_is_remembered_is_bounded(clashes: Clashes, told: list[str]) -> None:
    """Of a node that describes namespaces without end nothing more is told."""
    for number in range(5000):
        clashes.hear(from_node("a", name=f"n{number}"))

    clashes.hear(from_node("b", name="n1", tokens_per_block=32))

    assert told == []
