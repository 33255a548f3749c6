"""The way through the node's streams."""

from typing import Any

from kvtier.client.mapped.buffers import read_targets
from kvtier.client.mapped.ways import Stream
from kvtier.v1.block_pb2 import Lease
from kvtier.v1.result_pb2 import READ_RESULT_MISS, READ_RESULT_UNSPECIFIED
from kvtier.v1.tier_service_pb2 import PrepareLoadResponse


class Reads:
    """A client whose node has the first block only, and that reads into the caller's memory."""

    def __init__(self) -> None:
        self.leases: list[Lease] = []

    async def read_blocks_into(self, lease: Lease, buffers: Any) -> tuple[int, ...]:
        self.leases.append(lease)
        buffers[0][:] = b"first"
        return (READ_RESULT_UNSPECIFIED, READ_RESULT_MISS)


async def test_a_stream_fills_the_buffers_by_itself() -> None:
    """The bytes go where they belong as they come, and are not copied once more behind that."""
    client, lease = Reads(), Lease(id=b"i" * 16, generation=7)
    buffers = [bytearray(5), bytearray(5)]
    stream = Stream(client, "cpu0")  # type: ignore[arg-type]

    found, results = await stream.copy_out(
        PrepareLoadResponse(lease=lease), read_targets("into", buffers, [5, 5])
    )

    assert client.leases == [lease]
    assert (found, results) == ([b"first", None], [READ_RESULT_UNSPECIFIED, READ_RESULT_MISS])
    assert buffers[0] == b"first"
