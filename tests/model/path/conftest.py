"""What makes little do for what takes much elsewhere."""

from collections.abc import Iterator

import grpc.aio
import pytest

from kvtier.client import channel, link
from kvtier.server.operations import listing
from kvtier.server.tiers import scan

# A follower's transport takes in no more than this before it is read.
_NARROW = [("grpc.http2.lookahead_bytes", 2 << 10), ("grpc.http2.bdp_probe", 0)]
# Slots of one slice of a snapshot: a tier of some blocks has several.
_SLICE = 8


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    def narrow(endpoint: str, _identity: object) -> grpc.aio.Channel:
        options = [*channel.channel_options(), *_NARROW]
        return grpc.aio.insecure_channel(endpoint, options=options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(link, "open_channel", narrow)
        for module in (scan, listing):
            patch.setattr(module, "WINDOW", _SLICE)
        yield
