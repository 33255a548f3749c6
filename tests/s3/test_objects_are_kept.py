"""Blocks are kept as objects, whole and under names that are used once."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from structlog.testing import capture_logs

from kvtier.server.lasting.shelf import DamagedError, MissingError, ShelfError
from tests.s3.relay import Relay
from tests.s3.server import s3_client
from tests.s3.shelves import HEAD, Place, block, get, key_of, name_of, put

MIB = 1 << 20


@pytest.mark.parametrize("size", [0, 1, 5 * MIB - 200, 5 * MIB - 199, 11 * MIB])
def test_a_block_comes_back(place: Place, relay: Relay, size: int) -> None:
    """Blocks of any size come back byte for byte, and each was one request."""
    shelf = place.open(relay.endpoint)
    before = len(relay.requests)

    put(shelf, 1, size)
    requests = relay.requests[before:]
    head, payload = get(shelf, 1, size)

    assert (head, payload.tobytes()) == (HEAD, block(1, size).tobytes())
    assert [request.method for request in requests] == ["PUT"]
    uploads = s3_client(place.endpoint).list_multipart_uploads(
        Bucket=place.bucket, Prefix=place.prefix
    )
    assert not uploads.get("Uploads")


def test_a_large_block_is_sent_in_parts(place: Place, relay: Relay) -> None:
    """A block of tens of megabytes goes in several requests, and nothing of them is left over."""
    shelf, size = place.open(relay.endpoint), 33 * MIB

    put(shelf, 1, size)
    parts = [request for request in relay.requests if "partNumber=" in request.path]
    payload = get(shelf, 1, size)[1]

    assert payload.tobytes() == block(1, size).tobytes()
    assert len(parts) == 5
    uploads = s3_client(place.endpoint).list_multipart_uploads(
        Bucket=place.bucket, Prefix=place.prefix
    )
    assert not uploads.get("Uploads")
    with pytest.raises(ShelfError):
        put(shelf, 1, size + 1)


def test_a_get_is_one_request(place: Place, relay: Relay) -> None:
    """Header and payload come by one request."""
    shelf = place.open(relay.endpoint)
    put(shelf, 1)
    before = len(relay.requests)

    get(shelf, 1)

    assert [request.method for request in relay.requests[before:]] == ["GET"]


def test_many_threads_put_and_get(place: Place) -> None:
    """Operations in several threads do not mix their bytes up."""
    shelf = place.open()

    def there_and_back(number: int) -> bool:
        put(shelf, number)
        return np.array_equal(get(shelf, number)[1], block(number))

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(there_and_back, range(40)))


def test_a_head_tells_the_whole_length(place: Place) -> None:
    """The first bytes come with the length of the object, also when that is shorter."""
    shelf = place.open()
    name = put(shelf, 1)
    place.write(key_of(name_of(2)), b"")
    whole = HEAD + block(1).tobytes()

    assert shelf.head(name, 100) == (whole[:100], len(whole))
    assert shelf.head(name, 9000) == (whole, len(whole))
    assert shelf.head(name_of(2), 100) == (b"", 0)


def test_what_is_missing_is_told(place: Place) -> None:
    """A block that is not there is neither damage nor trouble."""
    shelf = place.open()

    with pytest.raises(MissingError):
        get(shelf, 1)
    with pytest.raises(MissingError):
        shelf.head(name_of(1), 10)


@pytest.mark.parametrize("length", [0, 100, 3199, 3201, 9000])
def test_another_length_is_damage(place: Place, length: int) -> None:
    """An object that somebody replaced by a longer or shorter one is damaged."""
    shelf = place.open()
    name = put(shelf, 1)
    place.write(key_of(name), b"x" * length)

    with pytest.raises(DamagedError):
        get(shelf, 1)


def test_a_name_is_not_written_twice(place: Place) -> None:
    """A name that has an object of another size keeps it."""
    shelf = place.open()
    name = name_of(1)
    place.write(key_of(name), b"other")

    with pytest.raises(ShelfError, match="another size"):
        put(shelf, 1)

    assert place.read(key_of(name)) == b"other"


def test_what_is_not_wanted_is_not_written(place: Place) -> None:
    """A block that nobody waits for any more does not get its name."""
    shelf = place.open()

    with pytest.raises(ShelfError):
        shelf.put(name_of(1), [HEAD], lambda: False)

    assert place.keys() == ["OWNER"]


def test_deleting_passes_over_what_is_not_there(place: Place) -> None:
    """Blocks are removed together; names without a block are no failure."""
    shelf = place.open()
    names = [put(shelf, number) for number in range(3)]

    shelf.delete([names[0], name_of(9), names[2]])
    shelf.delete([])

    assert list(shelf.names()) == [[names[1]]]


def test_only_blocks_are_named(place: Place) -> None:
    """Objects with other keys are neither told nor removed."""
    shelf = place.open()
    name = put(shelf, 1)
    other = name_of(2)
    foreign = [
        "blocks/",
        "blocks/readme",
        f"blocks/zz/{other}",
        f"blocks/{other}",
        f"blocks/{other[:2]}/{other}.bak",
        f"blocks/{other[:2]}/{other.upper()}",
        f"blocks/{other[:2]}/deeper/{other}",
        f"{name}",
    ]
    for key in foreign:
        place.write(key, b"foreign")

    assert [each for page in shelf.names() for each in page] == [name]
    assert set(foreign) < set(place.keys())


@pytest.mark.slow
def test_thousands_are_named(place: Place) -> None:
    """Names come page by page, each once."""
    shelf = place.open()
    names = [name_of(number) for number in range(2500)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda name: shelf.put(name, [b"x"]), names))

    pages = list(shelf.names())

    assert len(pages) >= 3
    assert sorted(name for page in pages for name in page) == sorted(names)
    shelf.delete(names)
    assert [name for page in shelf.names() for name in page] == []


def test_descriptions_are_kept(place: Place) -> None:
    """Descriptions of namespaces are kept until they are forgotten, and replaced at will."""
    shelf = place.open()
    shelf.describe("a" * 64, b"old")
    shelf.describe("a" * 64, b"one")
    shelf.describe("b" * 64, b"two")
    place.write("namespaces/readme", b"foreign")

    assert shelf.descriptions() == {"a" * 64: b"one", "b" * 64: b"two"}
    shelf.forget("a" * 64)
    shelf.forget("a" * 64)
    assert shelf.descriptions() == {"b" * 64: b"two"}


def test_a_description_that_is_too_long_is_passed_over(place: Place) -> None:
    """One that cannot be a description is warned of, and the others are still there."""
    shelf = place.open()
    shelf.describe("a" * 64, b"one")
    place.write("namespaces/" + "b" * 64, bytes(2 * MIB))

    with capture_logs() as logs:
        assert shelf.descriptions() == {"a" * 64: b"one"}

    assert [log["log_level"] for log in logs] == ["warning"]


def test_a_probe_leaves_nothing(place: Place) -> None:
    """Probing writes so many bytes and removes them."""
    shelf = place.open()

    shelf.probe(10_000)

    assert place.keys() == ["OWNER"]


@pytest.mark.parametrize("name", ["", "../OWNER", "a" * 63, name_of(1) + "/x", name_of(1).upper()])
def test_other_names_never_reach_the_server(place: Place, relay: Relay, name: str) -> None:
    """What is no name of a block is refused before any request."""
    shelf = place.open(relay.endpoint)
    before = len(relay.requests)

    for use in (lambda: shelf.head(name, 1), lambda: shelf.delete([name])):
        with pytest.raises(ValueError, match="no name"):
            use()
    with pytest.raises(ValueError, match="no fingerprint"):
        shelf.describe(name, b"")

    assert len(relay.requests) == before
