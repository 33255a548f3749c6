"""The connections to one node: one for control, one for bulk."""

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import grpc
import grpc.aio

from kvtier.client.channel import open_channel
from kvtier.v1.event_service_pb2 import WatchEventsRequest
from kvtier.v1.event_service_pb2_grpc import EventServiceStub
from kvtier.v1.lease_stream_pb2 import LeaseBlocksResponse
from kvtier.v1.node_service_pb2_grpc import NodeServiceStub
from kvtier.v1.tier_service_pb2_grpc import TierServiceStub
from kvtier.v1.transfer_service_pb2 import ReadBlocksRequest, WriteBlocksResponse
from kvtier.v1.transfer_service_pb2_grpc import TransferServiceStub
from kvtier.wire.identity import Identity

if TYPE_CHECKING:
    from kvtier.v1.event_service_pb2 import WatchEventsResponse
    from kvtier.v1.event_service_pb2_grpc import EventServiceAsyncStub
    from kvtier.v1.node_service_pb2_grpc import NodeServiceAsyncStub
    from kvtier.v1.tier_service_pb2_grpc import TierServiceAsyncStub
    from kvtier.v1.transfer_service_pb2 import MapTierRequest, MapTierResponse

    _EventCall = grpc.aio.UnaryStreamCall[WatchEventsRequest, WatchEventsResponse]

_LEASES = "/kvtier.v1.TransferService/LeaseBlocks"
_WRITE = "/kvtier.v1.TransferService/WriteBlocks"
_READ = "/kvtier.v1.TransferService/ReadBlocks"
_HEALTH = "/grpc.health.v1.Health/Check"


class Bulk(NamedTuple):
    """The calls of TransferService, whose messages with data are framed by `kvtier.wire.chunks`.

    Attributes:
        write: WriteBlocks, of encoded requests.
        write_at_once: The same call on the wire with one message each way, at less cost here: a
            node answers an offer that came with the bytes of all its blocks by one message.
        read: ReadBlocks, of encoded responses.
        map_tier: MapTier.
    """

    write: "grpc.aio.StreamStreamMultiCallable[bytes, WriteBlocksResponse]"
    write_at_once: "grpc.aio.UnaryUnaryMultiCallable[bytes, WriteBlocksResponse]"
    read: "grpc.aio.UnaryStreamMultiCallable[ReadBlocksRequest, bytes]"
    map_tier: "grpc.aio.UnaryUnaryMultiCallable[MapTierRequest, MapTierResponse]"


class Link:
    """The channels to a node, each opened when it is first used.

    Args:
        endpoint: The node's address.
        identity: TLS and who the caller is; None for plaintext and nobody.

    Attributes:
        identity: As given.
    """

    def __init__(self, endpoint: str, identity: Identity | None = None) -> None:
        self.identity = identity
        self._endpoint = endpoint
        self._channels: list[grpc.aio.Channel] = []
        self._streams = 0
        self._no_stream = asyncio.Event()
        self._no_stream.set()

    @cached_property
    def control(self) -> "tuple[TierServiceAsyncStub, EventServiceAsyncStub]":
        """The stubs of TierService and EventService."""
        return TierServiceStub(self._control), EventServiceStub(self._control)

    @cached_property
    def operating(self) -> "NodeServiceAsyncStub":
        """The stub of NodeService."""
        return NodeServiceStub(self._control)

    @cached_property
    def health(self) -> "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]":
        """Check of grpc.health.v1, encoded: its messages would be a dependency for two fields."""
        return self._control.unary_unary(_HEALTH)

    @cached_property
    def leases(self) -> "grpc.aio.StreamStreamMultiCallable[bytes, LeaseBlocksResponse]":
        """LeaseBlocks, of encoded requests: its calls are control, though its service is not."""
        decode = LeaseBlocksResponse.FromString
        return self._control.stream_stream(_LEASES, response_deserializer=decode)

    @cached_property
    def _control(self) -> grpc.aio.Channel:
        return self._open()

    @cached_property
    def bulk(self) -> Bulk:
        """The calls of TransferService, over a connection of their own."""
        channel, decode = self._open(), WriteBlocksResponse.FromString
        return Bulk(
            channel.stream_stream(_WRITE, response_deserializer=decode),
            channel.unary_unary(_WRITE, response_deserializer=decode),
            channel.unary_stream(_READ, request_serializer=ReadBlocksRequest.SerializeToString),
            TransferServiceStub(channel).MapTier,
        )

    def watch(self, request: WatchEventsRequest) -> "_EventCall":
        """Follow the node's events; see `unwatched`."""
        call = self.control[1].WatchEvents(request)
        self._streams += 1
        self._no_stream.clear()
        call.add_done_callback(self._stream_ended)
        return call

    async def unwatched(self) -> None:
        """Wait until no stream of events is open."""
        await self._no_stream.wait()

    @property
    def connected(self) -> bool:
        """Whether one of the connections stands, as far as this side can tell."""
        return any(
            channel.get_state() is grpc.ChannelConnectivity.READY for channel in self._channels
        )

    async def close(self, grace: float | None = None) -> None:
        """Close the channels.

        Args:
            grace: Seconds that calls under way have to end; without it they are cancelled at once.
        """
        for channel in self._channels:
            await channel.close(grace)

    def _stream_ended(self, _: object) -> None:
        self._streams -= 1
        if not self._streams:
            self._no_stream.set()

    def _open(self) -> grpc.aio.Channel:
        channel = open_channel(self._endpoint, self.identity)
        self._channels.append(channel)
        return channel
