"""Reading blocks from a node."""

import grpc
import grpc.aio
import pytest
import xxhash

from kvtier.client import (
    AbortedError,
    KvtierError,
    NodeClient,
    NotFoundError,
    block_sizes,
)
from kvtier.v1.block_pb2 import Lease
from kvtier.v1.result_pb2 import ReadResult
from kvtier.v1.transfer_service_pb2 import (
    ReadBlocksResponse,
)
from kvtier.wire.errors import Reason, aborted

from .fakes import FakeNode, play
from .messages import FINGERPRINT, NAMESPACE, block_set
from .transferring import CORRUPT, MISS, payload_of, sender


async def test_a_load_brings_every_block_that_is_there(
    knowing: FakeNode, client: NodeClient
) -> None:
    """Present blocks are whole, an absent one is a MISS, and fails nothing else."""
    blocks = [block_set(1, 2), block_set(3, group=1)]
    knowing.on("ReadBlocks", sender([64, 64, 128], missing=[1]))

    report = await client.load("cpu0", FINGERPRINT, blocks)

    (request,) = knowing.requests("ReadBlocks")
    assert request.blocks.tier == "cpu0"
    assert list(request.blocks.blocks) == blocks
    assert report.payloads == (payload_of(0, 64), None, payload_of(2, 128))
    assert report.results == (ReadResult.READ_RESULT_UNSPECIFIED, MISS, 0)


async def test_blocks_of_an_open_lease_are_read(node: FakeNode, client: NodeClient) -> None:
    """The sizes tell where one block ends and the next begins."""
    sizes = block_sizes(NAMESPACE, [block_set(1, 2)])
    node.on("ReadBlocks", sender(sizes, chunk=7))
    lease = Lease(id=b"i" * 16, generation=5)

    report = await client.read_blocks(lease, sizes)

    assert node.requests("ReadBlocks")[0].lease == lease
    assert report.payloads == (payload_of(0, 64), payload_of(1, 64))


async def test_bytes_that_changed_on_the_way_are_not_delivered(
    knowing: FakeNode, client: NodeClient
) -> None:
    """A checksum that does not match makes that block CORRUPT."""
    good, bad = payload_of(0, 64), payload_of(1, 64)
    checksums = [xxhash.xxh3_64_intdigest(good), xxhash.xxh3_64_intdigest(b"other")]
    knowing.on("ReadBlocks", play(ReadBlocksResponse(checksums=checksums, data=good + bad)))

    report = await client.load("cpu0", FINGERPRINT, [block_set(1, 2)])

    assert report.payloads == (good, None)
    assert report.results == (0, CORRUPT)


async def test_a_lease_that_ends_in_the_middle_of_a_read_raises(
    node: FakeNode, client: NodeClient
) -> None:
    """What was read so far may have changed, and is not handed out."""
    part = ReadBlocksResponse(data=bytes(10))
    node.on("ReadBlocks", play(part, then=aborted("the lease expired")))

    with pytest.raises(AbortedError, match="the lease expired"):
        await client.read_blocks(Lease(id=b"i" * 16), [64])


async def test_a_read_that_ends_early_raises(knowing: FakeNode, client: NodeClient) -> None:
    """Half a block is no block."""
    knowing.on("ReadBlocks", play(ReadBlocksResponse(data=bytes(10))))

    with pytest.raises(KvtierError, match="the end came before block 0 of 1"):
        await client.load("cpu0", FINGERPRINT, [block_set(1)])


async def test_a_namespace_that_nobody_knows_is_told_before_a_transfer(
    node: FakeNode, client: NodeClient
) -> None:
    """Without a description the sizes are unknown; the error says what to do."""
    with pytest.raises(
        NotFoundError, match=r"is not registered at .*; register it first"
    ) as caught:
        await client.load("cpu0", FINGERPRINT, [block_set(1)])

    assert caught.value.reason == Reason.NAMESPACE_UNKNOWN


async def test_bulk_has_a_connection_of_its_own(knowing: FakeNode, client: NodeClient) -> None:
    """Transfers share their connection, and not with calls or events; it opens when needed."""
    knowing.on("ReadBlocks", sender([64]))
    await client.get_node()
    connections = {peer for _, peer in knowing.peers}
    assert len(connections) == 1

    await client.load("cpu0", FINGERPRINT, [block_set(1)])
    await client.load("cpu0", FINGERPRINT, [block_set(1)])

    bulk = {peer for name, peer in knowing.peers if name == "ReadBlocks"}
    others = {peer for name, peer in knowing.peers if name != "ReadBlocks"}
    assert len(bulk) == 1
    assert others == connections
    assert not bulk & others


async def test_an_answer_that_is_no_message_is_told() -> None:
    """A node that sends noise broke the framing; the error says how much came."""

    async def noise(_requests: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        await context.write(b"\xff\xff")

    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_stream_rpc_method_handler(noise)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "kvtier.v1.TransferService", {"ReadBlocks": handler}
            ),
        )
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with NodeClient(f"127.0.0.1:{port}") as client:
            with pytest.raises(KvtierError, match="2 bytes that are no ReadBlocksResponse"):
                await client.read_blocks(Lease(), [1])
    finally:
        await server.stop(None)
