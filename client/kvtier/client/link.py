"""The connections to one node: one for control, one for bulk."""

from functools import cached_property
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from kvtier.client.channel import open_channel
from kvtier.v1.event_service_pb2_grpc import EventServiceStub
from kvtier.v1.tier_service_pb2_grpc import TierServiceStub
from kvtier.v1.transfer_service_pb2 import WriteBlocksRequest, WriteBlocksResponse
from kvtier.v1.transfer_service_pb2_grpc import TransferServiceStub

if TYPE_CHECKING:
    from kvtier.v1.event_service_pb2_grpc import EventServiceAsyncStub
    from kvtier.v1.tier_service_pb2_grpc import TierServiceAsyncStub
    from kvtier.v1.transfer_service_pb2_grpc import TransferServiceAsyncStub

    WriteAtOnce = grpc.aio.UnaryUnaryMultiCallable[WriteBlocksRequest, WriteBlocksResponse]


class Link:
    """The channels to a node, each opened when it is first used.

    Args:
        endpoint: The node's address.
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._channels: list[grpc.aio.Channel] = []

    @cached_property
    def control(self) -> "tuple[TierServiceAsyncStub, EventServiceAsyncStub]":
        """The stubs of TierService and EventService."""
        channel = self._open()
        return TierServiceStub(channel), EventServiceStub(channel)

    @cached_property
    def bulk(self) -> "tuple[TransferServiceAsyncStub, WriteAtOnce]":
        """The stub of TransferService, and WriteBlocks with one message each way."""
        channel = self._open()
        at_once: WriteAtOnce = channel.unary_unary(
            "/kvtier.v1.TransferService/WriteBlocks",
            request_serializer=WriteBlocksRequest.SerializeToString,
            response_deserializer=WriteBlocksResponse.FromString,
        )
        return TransferServiceStub(channel), at_once

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

    def _open(self) -> grpc.aio.Channel:
        channel = open_channel(self._endpoint)
        self._channels.append(channel)
        return channel
