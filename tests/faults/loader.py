"""Loads large blocks from a node, many at a time, and says whether each came back exact.

Run as a program, with an endpoint and a number of loads, after `store_large`.
"""

import asyncio
import json
import sys

from kvtier.client import NodeClient
from tests.contract.support import blocks_of, namespace, run

MIB = 1 << 20
SIZES = [16 * MIB, 32 * MIB, 64 * MIB]


def content(group: int) -> bytes:
    return bytes([group + 1]) * SIZES[group]


async def store_large(client: NodeClient) -> bytes:
    """Store one block of each size; return their namespace."""
    fingerprint = await client.register_namespace(namespace(block_bytes=SIZES))
    for group in range(len(SIZES)):
        await client.store("cpu0", fingerprint, [run("A", group=group)], [content(group)])
    return fingerprint


async def _load(client: NodeClient, fingerprint: bytes, group: int) -> bool:
    report = await client.load("cpu0", fingerprint, [blocks_of("A", group=group)])
    return report.payloads[0] == content(group)


async def _main(endpoint: str, loads: int) -> None:
    async with NodeClient(endpoint) as client:
        fingerprint = await client.register_namespace(namespace(block_bytes=SIZES))
        groups = [place % len(SIZES) for place in range(loads)]
        exact = await asyncio.gather(*(_load(client, fingerprint, group) for group in groups))
    sys.stdout.write(json.dumps(exact))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2])))
