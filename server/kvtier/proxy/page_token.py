"""Where a listing over many nodes goes on."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from xxhash import xxh3_64_intdigest

from kvtier.v1.listing_pb2 import ListBlocksRequest
from kvtier.wire.errors import Reason, invalid, quote

# A digest of all that the token depends on and of what follows it, the place of the member; then
# that node's own token.
_HEAD = struct.Struct("<QH")
_PLACE = struct.Struct("<H")


class PageToken(NamedTuple):
    """A place among those who are listed one after the other, and one in the listing of that one.

    Attributes:
        place: Whose turn it is.
        inner: The token that it gave; empty for its first page.
    """

    place: int
    inner: bytes


def read_token(request: ListBlocksRequest, endpoints: Sequence[str]) -> PageToken:
    """Return the request's token, or that of a first page.

    Args:
        request: What to list.
        endpoints: Who is listed, in order.

    Raises:
        KvtierError: INVALID_ARGUMENT when it is none that was given for this request and these.
    """
    token = request.page_token
    if not token:
        return PageToken(0, b"")
    if len(token) >= _HEAD.size:
        digest, place = _HEAD.unpack_from(token)
        found = PageToken(place, token[_HEAD.size :])
        if place < len(endpoints) and digest == _digest(request, endpoints, found):
            return found
    raise invalid(
        f"page_token {quote(token)} was not given for this filter and the nodes that are behind "
        "this proxy now: start the listing over",
        Reason.PAGE_TOKEN_INVALID,
    )


def write_token(request: ListBlocksRequest, endpoints: Sequence[str], token: PageToken) -> bytes:
    """Return a token as it travels."""
    return _HEAD.pack(_digest(request, endpoints, token), token.place) + token.inner


def _digest(request: ListBlocksRequest, endpoints: Sequence[str], token: PageToken) -> int:
    wanted = ListBlocksRequest()
    wanted.CopyFrom(request)
    wanted.ClearField("page_token")
    wanted.ClearField("page_size")
    parts = (
        wanted.SerializeToString(deterministic=True),
        "\n".join(endpoints).encode(),
        _PLACE.pack(token.place),
        token.inner,
    )
    # The lengths keep parts apart that would be equal when they are joined.
    return xxh3_64_intdigest(b"".join(len(part).to_bytes(4, "little") + part for part in parts))
