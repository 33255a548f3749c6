"""A size that a caller declares costs the node no memory before the bytes are there."""

import asyncio
import struct
from contextlib import suppress
from pathlib import Path

from kvtier.client import FailedPreconditionError, InvalidArgumentError, NodeClient
from kvtier.v1.tier_service_pb2 import (
    PrepareStoreRequest,
)
from kvtier.v1.transfer_service_pb2 import WriteBlocksRequest
from tests.contract.support import namespace, run
from tests.contract.wire import METHODS, wire

from .conftest import StartNode
from .processes import NodeProcess

MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40
CALLS = 40

_HEADERS, _DATA, _SETTINGS = 1, 0, 4
_END_HEADERS = 4


def peak_bytes(node: NodeProcess) -> int:
    """The most memory that a node's process ever had."""
    status = Path(f"/proc/{node.process.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) << 10


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2."""
    return (
        struct.pack(">I", len(payload))[1:]
        + bytes((kind, flags))
        + struct.pack(">I", stream)
        + payload
    )


def huge_call(path: str) -> bytes:
    """The beginning of a gRPC call whose message claims to have 4 GiB, and brings three bytes."""
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "node",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    block = b"".join(
        b"\0" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()
        for name, value in headers.items()
    )
    return (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + frame(_SETTINGS, 0, 0, b"")
        + frame(_HEADERS, _END_HEADERS, 1, block)
        + frame(_DATA, 0, 1, b"\0" + b"\xff" * 4 + b"abc")
    )


async def test_sizes_in_requests_are_not_believed(start_node: StartNode) -> None:
    """Neither a namespace of huge blocks, nor an offer of them, nor a part far behind others."""
    huge = [TIB, 1 << 63, (1 << 64) - 1]
    node = await start_node(tiers=[{"name": "cpu0", "medium": "cpu", "capacity": "4MiB"}])
    async with NodeClient(node.endpoint) as client, wire(node.endpoint) as raw:
        small = await client.register_namespace(namespace("small", block_bytes=[MIB]))
        large = await client.register_namespace(namespace("large", block_bytes=[GIB]))
        before = peak_bytes(node)
        for turn in range(CALLS):
            with suppress(InvalidArgumentError):
                await client.register_namespace(namespace("huge", block_bytes=[huge[turn % 3]]))
            with suppress(FailedPreconditionError):
                await client.prepare_store("cpu0", large, [run(1, 2, 3, 4)])
            offer = PrepareStoreRequest(
                tier="cpu0",
                namespace=small,
                runs=[run(turn)],
                lease_id=turn.to_bytes(16, "big"),
                owner="test",
            )
            request = WriteBlocksRequest(offer=offer, offset=huge[turn % 3] % (1 << 64), data=b"x")
            await raw.call(METHODS["TransferService.WriteBlocks"], request)
        after = peak_bytes(node)
        tiers = await client.list_tiers()

    assert after - before < 16 * MIB
    assert [(tier.ready_blocks, tier.pending_blocks) for tier in tiers] == [(0, 0)]


async def test_the_size_of_a_message_is_not_believed(start_node: StartNode) -> None:
    """Connections that announce 4 GiB and send nothing more are no burden."""
    node = await start_node()
    host, _, port = node.endpoint.rpartition(":")
    async with NodeClient(node.endpoint) as client:
        before = peak_bytes(node), await client.get_node()
        streams = []
        for method in list(METHODS.values()) * 2:
            reader, writer = await asyncio.open_connection(host, int(port))
            path = f"/{method.containing_service.full_name}/{method.name}"
            writer.write(huge_call(path))
            await writer.drain()
            streams.append((reader, writer))
        async with asyncio.timeout(10):
            for reader, _ in streams:
                await reader.readuntil(b"larger than max")
        after = peak_bytes(node), await client.get_node()
        for _, writer in streams:
            writer.close()

    assert after[0] - before[0] < 32 * MIB
    assert after[1].incarnation == before[1].incarnation
