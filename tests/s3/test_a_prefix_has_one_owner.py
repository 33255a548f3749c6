"""A prefix is claimed for one tier of one node, at the latest before its first use."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kvtier.server.lasting.shelf import ShelfError
from kvtier.server.stores.base import StoreError
from tests.s3 import faults
from tests.s3.faults import Fault, Kind
from tests.s3.relay import Relay
from tests.s3.shelves import Place, get, put


def test_the_owner_is_written_down(place: Place) -> None:
    """Opening names the node and the tier in the prefix; opening again changes nothing."""
    place.open()
    text = place.read("OWNER")

    place.open()

    owner = json.loads(text)
    assert (owner["node_id"], owner["tier"], owner["format"]) == ("node-a", "obj0", 1)
    assert place.read("OWNER") == text


@pytest.mark.parametrize("other", [{"node_id": "node-b"}, {"tier": "obj1"}])
def test_another_is_refused(place: Place, other: dict[str, str]) -> None:
    """Another node, and another tier of the same node, are told whose it is and what to do."""
    place.open()

    with pytest.raises(StoreError) as caught:
        place.open(**other)

    assert "belongs to node node-a, tier obj0" in str(caught.value)
    assert f"remove {place.url}/OWNER" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[" * 4000,
        b"null",
        b'"node-a"',
        b'{"node_id": "node-a", "tier": "obj0"}',
        b'{"node_id": "node-a", "tier": "obj0", "format": true}',
        b'{"node_id": ["node-a"], "tier": "obj0", "format": 1}',
        b'{"node_id": "node-a\\n", "tier": "obj0", "format": 1}',
        b'{"node_id": "node-a", "tier": "obj0", "format": 1}' + b" " * 4096,
        b"\xff\xfe",
    ],
)
def test_an_owner_that_cannot_be_read_is_refused(place: Place, text: bytes) -> None:
    """An OWNER that is not as this tier writes it belongs to somebody else."""
    place.write("OWNER", text)

    with pytest.raises(StoreError, match="OWNER that cannot be read"):
        place.open()


def test_another_format_is_refused(place: Place) -> None:
    """A prefix of a newer kvtier is left alone."""
    place.write("OWNER", b'{"node_id": "node-a", "tier": "obj0", "format": 2}')

    with pytest.raises(StoreError, match="another format"):
        place.open()


def test_one_of_many_gets_a_prefix(place: Place) -> None:
    """Of nodes that start at one time, one owns the prefix and the others are refused."""

    def opens(number: int) -> bool:
        try:
            place.open(node_id=f"node-{number}")
        except StoreError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(opens, range(8))) == 1


@pytest.mark.parametrize("kind", [Kind.LOSE, Kind.RESET])
def test_a_claim_whose_answer_is_lost_counts(place: Place, relay: Relay, kind: Kind) -> None:
    """A connection that breaks while the prefix is claimed costs nothing but another request."""
    relay.plan = faults.first(Fault(kind), method="PUT")

    shelf = place.open(relay.endpoint)

    put(shelf, 1)
    put(place.open(), 2)


def test_a_server_that_is_down_is_claimed_later(place: Place, relay: Relay) -> None:
    """The shelf opens, and claims the prefix before it does anything."""
    relay.down()
    shelf = place.open(relay.endpoint)
    with pytest.raises(ShelfError, match=f"no answer from {relay.endpoint}"):
        put(shelf, 1)

    relay.up()
    put(shelf, 1)

    assert "OWNER" in set(place.keys())


def test_a_prefix_that_was_taken_meanwhile_is_refused(place: Place, relay: Relay) -> None:
    """A shelf that opened unclaimed does nothing on a prefix that became another's."""
    relay.down()
    shelf = place.open(relay.endpoint)
    place.open(node_id="node-b")
    relay.up()

    for use in (lambda: put(shelf, 1), lambda: get(shelf, 1), lambda: shelf.probe(10)):
        with pytest.raises(ShelfError, match="belongs to node node-b"):
            use()

    assert place.keys() == ["OWNER"]


@pytest.mark.slow
def test_operations_wait_together(place: Place, relay: Relay) -> None:
    """Operations that find the prefix unclaimed do not wait one after the other."""
    relay.plan = faults.always(Fault(Kind.HANG))
    shelf = place.open(relay.endpoint, io_timeout=1.0)
    begin = time.monotonic()

    def fails(number: int) -> bool:
        with pytest.raises(ShelfError, match="request timed out"):
            put(shelf, number)
        return True

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(fails, range(8)))

    assert time.monotonic() - begin < 4


def test_a_probe_looks_at_the_owner(place: Place) -> None:
    """A prefix that was given to another is found out, and one that was emptied claimed again."""
    shelf = place.open()
    place.write("OWNER", b'{"node_id": "node-b", "tier": "obj0", "format": 1}')
    with pytest.raises(ShelfError, match="belongs to node node-b"):
        shelf.probe(10)
    place.remove("OWNER")

    shelf.probe(10)

    assert json.loads(place.read("OWNER"))["node_id"] == "node-a"
