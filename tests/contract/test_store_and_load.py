"""The way of a block: offered, written, read back, listed."""

from .conftest import Serve
from .support import block_hash, blocks_of, hash_set, payloads, run


async def test_what_is_stored_is_read_back_byte_exact(serve: Serve) -> None:
    """A load returns the very bytes that were stored, and None for what is not there."""
    node = await serve()

    await node.client.store("cpu0", node.namespace, [run(1, 2)], payloads(1, 2))
    report = await node.client.load("cpu0", node.namespace, [blocks_of(1, 2, 3)])

    assert [*payloads(1, 2), None] == list(report.payloads)


async def test_what_is_stored_is_listed_with_its_chain(serve: Serve) -> None:
    """A listing tells parent and position of each block."""
    node = await serve()

    await node.store(1, 2)

    listed = {block.block_hash: block async for block in node.client.list_blocks()}
    assert hash_set([1, 2]) == set(listed)
    assert block_hash(1) == listed[block_hash(2)].parent_block_hash
    assert listed[block_hash(2)].start_position == 16
