"""What goes wrong with an object server is told in a few words, in time, and without secrets."""

import re
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from threading import Thread

import pytest

from kvtier.server.lasting.objects import ObjectShelf
from kvtier.server.lasting.shelf import ShelfError
from kvtier.server.stores.base import StoreError
from tests.s3 import faults
from tests.s3.faults import Fault, Kind
from tests.s3.relay import Relay
from tests.s3.server import KEY, SECRET, S3Server, s3_client
from tests.s3.shelves import Place, get, key_of, name_of, put

USES: dict[str, Callable[[ObjectShelf], object]] = {
    "put": lambda shelf: put(shelf, 2),
    "get": lambda shelf: get(shelf, 1),
    "head": lambda shelf: shelf.head(name_of(1), 10),
    "delete": lambda shelf: shelf.delete([name_of(1)]),
    "names": lambda shelf: list(shelf.names()),
    "describe": lambda shelf: shelf.describe("a" * 64, b"text"),
    "descriptions": lambda shelf: shelf.descriptions(),
    "forget": lambda shelf: shelf.forget("a" * 64),
    "probe": lambda shelf: shelf.probe(10),
}


def failure_of(act: Callable[[], object]) -> str:
    """Return the message of a failure, after a look for secrets in it and in its traceback."""
    with pytest.raises((ShelfError, StoreError)) as caught:
        act()
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    message = str(caught.value)
    for secret in (KEY, SECRET, "Signature", "AWS4", "<Error>", "Debug source"):
        assert secret not in shown
    assert "?" not in message
    assert len(message) < 300
    return message


@pytest.fixture
def shelf(place: Place, relay: Relay) -> ObjectShelf:
    """An open shelf with one block, behind the relay."""
    shelf = place.open(relay.endpoint, io_timeout=0.8)
    put(shelf, 1)
    return shelf


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(Kind.STATUS, 403, "AccessDenied"), r"access denied"),
        (
            Fault(Kind.STATUS, 403, "RequestTimeTooSkewed"),
            r"access denied \(RequestTimeTooSkewed\)",
        ),
        (Fault(Kind.STATUS, 400, "ExpiredToken"), r"access denied \(ExpiredToken\)"),
        (Fault(Kind.STATUS, 404, "NoSuchBucket"), r"bucket [a-z-]+ does not exist"),
        (Fault(Kind.STATUS, 404, "Elsewhere"), r"request refused with 404 \(Elsewhere\)"),
        (Fault(Kind.STATUS, 400, "InvalidRequest"), r"request refused with 400 \(InvalidRequest\)"),
        (Fault(Kind.STATUS, 400, "AuthorizationHeaderMalformed"), r".* is in another region"),
        (Fault(Kind.STATUS, 301, ""), r"http://127.0.0.1:\d+ sends elsewhere"),
        (Fault(Kind.STATUS, 500, "InternalError"), r"server error 500"),
        (Fault(Kind.STATUS, 503, "SlowDown"), r"server error 503"),
        (Fault(Kind.STATUS, 507, "XMinioStorageFull"), r"no space left on the object server"),
        (Fault(Kind.RESET), r"the connection to http://127.0.0.1:\d+ broke"),
        (Fault(Kind.HANG), r"request timed out"),
    ],
)
def test_failures_are_told(
    shelf: ObjectShelf, relay: Relay, use: str, fault: Fault, words: str
) -> None:
    """Every operation tells each failure in its own few words, and about in time."""
    relay.plan = faults.always(fault)
    begin = time.monotonic()

    message = failure_of(lambda: USES[use](shelf))

    assert re.fullmatch(words, message)
    assert time.monotonic() - begin < 3


@pytest.mark.parametrize("use", USES)
def test_a_server_that_is_gone_is_told(shelf: ObjectShelf, relay: Relay, use: str) -> None:
    """A refused connection names the server; when it is back, the same shelf works."""
    relay.down()

    assert failure_of(lambda: USES[use](shelf)) == f"no answer from {relay.endpoint}"

    relay.up()
    USES[use](shelf)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("fault", [Fault(Kind.STATUS, 503), Fault(Kind.RESET), Fault(Kind.LOSE)])
def test_one_failed_request_is_made_up_for(
    shelf: ObjectShelf, relay: Relay, use: str, fault: Fault
) -> None:
    """A single failure of a request is never seen."""
    relay.plan = faults.first(fault)

    USES[use](shelf)


def test_a_conflict_is_made_up_for(place: Place, shelf: ObjectShelf, relay: Relay) -> None:
    """A write that the server calls at odds with another, which came to nothing, is done again."""
    relay.plan = faults.first(Fault(Kind.STATUS, 409, "ConditionalRequestConflict"), method="PUT")

    name = put(shelf, 2)

    assert key_of(name) in set(place.keys())


def test_an_answer_that_is_cut_is_made_up_for(shelf: ObjectShelf, relay: Relay) -> None:
    """A connection that breaks within a block costs another request, not the block."""
    relay.plan = faults.first(Fault(Kind.CUT, 1000), method="GET")

    get(shelf, 1)


def test_an_answer_that_is_always_cut_is_trouble(shelf: ObjectShelf, relay: Relay) -> None:
    """Bytes that never come whole are no block."""
    relay.plan = faults.always(Fault(Kind.CUT, 0), method="GET")

    assert re.fullmatch(r"the connection to .* broke", failure_of(lambda: get(shelf, 1)))


@pytest.mark.parametrize(
    ("those", "words"),
    [
        ([Fault(Kind.MUTE)], "request timed out"),
        ([Fault(Kind.LOSE), Fault(Kind.STATUS, 403, "AccessDenied")], "access denied"),
    ],
)
def test_what_a_failed_write_left_is_removed(
    shelf: ObjectShelf, relay: Relay, those: list[Fault], words: str
) -> None:
    """A block that was stored although its write failed goes before the next write."""
    relay.plan = faults.first(*those, method="PUT")
    assert failure_of(lambda: put(shelf, 2)) == words
    assert name_of(2) in {name for page in shelf.names() for name in page}

    put(shelf, 3)

    names = {name for page in shelf.names() for name in page}
    assert names == {name_of(1), name_of(3)}


def test_a_server_that_lost_everything_is_no_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart without its data the bucket is missed, and no block is called missing."""
    with S3Server() as server:
        s3_client(server.endpoint).create_bucket(Bucket="kvtier-lost")
        shelf = Place(server.endpoint, "kvtier-lost").open()
        put(shelf, 1)
        server.kill()
        assert failure_of(lambda: get(shelf, 1)) == f"no answer from {server.endpoint}"
        server.start()

        assert failure_of(lambda: get(shelf, 1)) == "bucket kvtier-lost does not exist"


def test_a_bucket_that_is_not_there_is_told_at_once(place: Place) -> None:
    """Opening fails with the bucket's name and what to do."""
    message = failure_of(lambda: place.open(url="s3://kvtier-no-such-bucket/prefix"))

    assert "bucket kvtier-no-such-bucket does not exist; create it" in message


def test_wrong_credentials_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that the server does not know is an error at the start."""
    with S3Server({"INITIAL_NO_AUTH_ACTION_COUNT": "1"}) as server:
        s3_client(server.endpoint).create_bucket(Bucket="kvtier-denied")

        message = failure_of(Place(server.endpoint, "kvtier-denied").open)

    assert "access denied (InvalidAccessKeyId); check the credentials" in message


def test_no_credentials_are_told_at_once(
    place: Place, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any credentials the search for them ends soon, and is told."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", relay.endpoint)
    relay.plan = faults.always(Fault(Kind.HANG))
    begin = time.monotonic()

    message = failure_of(place.open)

    assert "no credentials found" in message
    assert time.monotonic() - begin < 4


def test_a_wrong_scheme_is_told_at_once(place: Place, not_http: str) -> None:
    """TLS with a server that has none, and none with one that wants it, are errors at the start."""
    with_tls = place.endpoint.replace("http:", "https:")

    assert f"{with_tls} does not speak TLS; check" in failure_of(lambda: place.open(with_tls))
    assert f"{not_http} does not speak HTTP; check" in failure_of(lambda: place.open(not_http))


@pytest.fixture
def not_http() -> Iterator[str]:
    """A port that answers HTTP with an alert of TLS."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=_alert, args=(listener,))
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _alert(listener: socket.socket) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.recv(65536)
            connection.sendall(b"\x15\x03\x01\x00\x02\x02\x46")


def test_a_server_that_does_not_answer_delays_the_start_little(place: Place, relay: Relay) -> None:
    """However long operations may take, opening takes a few seconds and is no error."""
    relay.plan = faults.always(Fault(Kind.HANG))
    begin = time.monotonic()

    place.open(relay.endpoint, io_timeout=60.0)

    assert 1 < time.monotonic() - begin < 4


def test_settings_that_cannot_be_used_are_told(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value in the environment that obstore refuses is not repeated."""
    monkeypatch.setenv("AWS_S3_EXPRESS", SECRET)

    assert "the settings cannot be used; check" in failure_of(place.open)


def test_the_library_is_only_needed_for_objects() -> None:
    """Without obstore a server starts, and an obj tier is told what to install."""
    code = (
        "import sys; sys.modules['obstore'] = None\n"
        "import kvtier.server.main\n"
        "from kvtier.server.config import TierConfig\n"
        "from kvtier.server.lasting.open_objects import open_objects\n"
        "tier = TierConfig(name='obj0', medium='obj', capacity=1, url='s3://bucket/prefix')\n"
        "open_objects(tier, 'node-a')\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "StoreError: an obj tier needs the package obstore" in done.stderr
    assert "pip install 'kvtier[s3]'" in done.stderr
