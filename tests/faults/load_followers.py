"""Followers of one tier of a node, each with a view of its own, until the node sends them off.

Run as a program, with an endpoint and a number, it prints `following` once every view is complete,
and at the end as JSON how each stream ended, how often it was reset, and a digest of its view.
"""

import asyncio
import hashlib
import json
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import grpc.aio

from kvtier.v1.event_service_pb2 import WatchEventsRequest, WatchEventsResponse
from kvtier.wire.errors import decode_details
from kvtier.wire.hashes import split_hashes
from tests.contract.support import WIDTH

TIER = "fs0"
# Followers on one connection.
_TOGETHER = 10


@lru_cache(256)
def _parsed(data: bytes) -> WatchEventsResponse:
    """Parse what comes to all followers alike once."""
    return WatchEventsResponse.FromString(data)


def digest(hashes: Iterable[bytes]) -> str:
    """Return one word for a set of blocks."""
    return hashlib.sha256(b"".join(sorted(hashes))).hexdigest()


class Follower:
    """A view of the tier, by one call."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._view: set[bytes] = set()
        self._through = self._resets = 0
        self.synced = asyncio.Event()

    async def follow(self) -> tuple[str, str, int, str]:
        """Read to the end; return code, reason, resets and the digest of the view."""
        try:
            async for data in self._call:
                self._take(_parsed(data))
        except grpc.aio.AioRpcError as error:
            trailers = [(str(key), value) for key, value in error.trailing_metadata() or ()]
            reason = decode_details(error.code(), "", trailers).reason
            return error.code().name, reason, self._resets, digest(self._view)
        return "OK", "", self._resets, digest(self._view)

    def _take(self, message: WatchEventsResponse) -> None:
        match message.WhichOneof("kind"):
            case "reset":
                self._view.clear()
                self._resets += 1
            case "snapshot":
                self._add(message.snapshot.stored)
            case "synced":
                assert message.synced.blocks == len(self._view)
                self.synced.set()
            case "batches":
                assert message.after == self._through
                for batch in message.batches.batches:
                    for removed in batch.removed:
                        self._view.difference_update(split_hashes(removed.block_hashes, WIDTH))
                    self._add(batch.stored)
        self._through = message.through

    def _add(self, stored: Iterable[Any]) -> None:
        for each in stored:
            self._view.update(split_hashes(each.block_hashes, WIDTH))


async def _main(endpoint: str, number: int) -> None:
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [
        grpc.aio.insecure_channel(endpoint, options) for _ in range(-(-number // _TOGETHER))
    ]
    request = WatchEventsRequest(tiers=[TIER]).SerializeToString()
    path = "/kvtier.v1.EventService/WatchEvents"
    stubs: list[Any] = [channel.unary_stream(path) for channel in channels]
    followers = [Follower(stubs[place // _TOGETHER](request)) for place in range(number)]
    following = [asyncio.create_task(follower.follow()) for follower in followers]
    await asyncio.gather(*(follower.synced.wait() for follower in followers))
    sys.stdout.write("following\n")
    sys.stdout.flush()
    sys.stdout.write(json.dumps(await asyncio.gather(*following)))
    await asyncio.gather(*(channel.close() for channel in channels))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2])))
