"""Tokens of a listing over many nodes: what was given comes back, and nothing else is taken."""

import pytest

from kvtier.proxy.page_token import PageToken, read_token, write_token
from kvtier.v1.listing_pb2 import ListBlocksRequest
from kvtier.wire.errors import KvtierError, Reason

ENDPOINTS = ["a:1", "b:1", "c:1"]
REQUEST = ListBlocksRequest(tiers=["a/cpu0"], page_size=3)


def asked(token: bytes, **changes: object) -> ListBlocksRequest:
    """The request of the next page, with some fields changed."""
    request = ListBlocksRequest()
    request.CopyFrom(REQUEST)
    request.MergeFrom(ListBlocksRequest(page_token=token, **changes))  # type: ignore[arg-type]
    return request


def test_no_token_is_the_first_page_of_the_first() -> None:
    """A listing begins with the primary."""
    assert read_token(REQUEST, ENDPOINTS) == PageToken(0, b"")


@pytest.mark.parametrize("inner", [b"", b"x", bytes(range(256))])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_token_brings_back_the_place_and_the_nodes_own(place: int, inner: bytes) -> None:
    """Whatever a node's token is made of; the size of a page may change on the way."""
    token = write_token(REQUEST, ENDPOINTS, PageToken(place, inner))

    assert read_token(asked(token, page_size=9), ENDPOINTS) == PageToken(place, inner)


def check_refused(request: ListBlocksRequest, endpoints: list[str]) -> None:
    with pytest.raises(KvtierError) as error:
        read_token(request, endpoints)
    assert (error.value.code.name, error.value.reason) == (
        "INVALID_ARGUMENT",
        Reason.PAGE_TOKEN_INVALID,
    )


def test_a_token_that_was_damaged_is_refused() -> None:
    """Cut, lengthened, or with any bit of it flipped."""
    token = write_token(REQUEST, ENDPOINTS, PageToken(1, b"inner"))
    damaged = [token[:length] for length in range(1, len(token))] + [token + b"\0"]
    for place in range(len(token)):
        for bit in range(8):
            spoiled = bytearray(token)
            spoiled[place] ^= 1 << bit
            damaged.append(bytes(spoiled))

    for each in damaged:
        check_refused(asked(each), ENDPOINTS)


def test_a_token_is_good_for_its_filter_and_its_nodes_only() -> None:
    """Another filter, and nodes that came, went or changed places, make it worth nothing."""
    token = write_token(REQUEST, ENDPOINTS, PageToken(1, b"inner"))

    check_refused(asked(token, group=0), ENDPOINTS)
    check_refused(asked(token, tiers=["b/cpu0"]), ENDPOINTS)
    for endpoints in (ENDPOINTS[:2], ["b:1", "a:1", "c:1"], [*ENDPOINTS, "d:1"], ["a:1\nb:1"]):
        check_refused(asked(token), endpoints)
