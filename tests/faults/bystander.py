"""A client that stores, looks up and loads blocks of its own, one after the other.

Run as a program with an endpoint, it says when it is at work, goes on until its standard input
ends, and then prints the seconds that each round took. It fails when it is refused, or a block is
not what it was.
"""

import asyncio
import json
import sys
import time

from kvtier.client import NodeClient
from tests.contract.support import blocks_of, namespace, payloads, run

_BLOCKS = 8
_PAUSE = 0.02


async def _round(client: NodeClient, fingerprint: bytes, block: object) -> None:
    await client.store("cpu0", fingerprint, [run(block)], payloads(block))
    await client.lookup(fingerprint, [blocks_of(block)])
    report = await client.load("cpu0", fingerprint, [blocks_of(block)])
    assert list(report.payloads) == payloads(block)


async def _main(endpoint: str) -> None:
    took: list[float] = []
    async with NodeClient(endpoint, timeout=20) as client:
        fingerprint = await client.register_namespace(namespace())
        await _round(client, fingerprint, "the first")
        sys.stdout.write("at work\n")
        sys.stdout.flush()
        over = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        while not over.done():
            start = time.perf_counter()
            await _round(client, fingerprint, ("a bystander's", len(took) % _BLOCKS))
            took.append(time.perf_counter() - start)
            await asyncio.sleep(_PAUSE)
    sys.stdout.write(json.dumps(took))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
