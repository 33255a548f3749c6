"""A client process on the node's host that writes into a mapped tier, a piece at a time.

Run as a program, with an endpoint and the lease's time to live in seconds, it stores the block
"late": it prepares, writes half of it, says so, and waits for a line. Then it writes the rest, asks
for the completion, and prints how that ended. With a third argument it writes the block over and
over instead of waiting, until a line comes.
"""

import asyncio
import json
import select
import sys

from xxhash import xxh3_64_intdigest

from kvtier.client import KvtierError, NodeClient
from kvtier.client.mapped.file import open_shared
from tests.contract.support import namespace, run

BLOCK_BYTES = 1 << 20
NAMESPACE = namespace("mapped", block_bytes=[BLOCK_BYTES])
LATE = b"late" * (BLOCK_BYTES // 4)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def main(endpoint: str, ttl: float, *, restless: bool) -> None:
    async with NodeClient(endpoint) as client:
        fingerprint = await client.register_namespace(NAMESPACE)
        told = await client.map_tier("cpu0")
        file = open_shared(told.shared_file, None)
        prepared = await client.prepare_store(
            "cpu0", fingerprint, [run("late")], ttl=ttl, mapping=told.mapping
        )
        begin, half = prepared.slots[0] * told.slot_bytes, BLOCK_BYTES // 2
        file.view[begin : begin + half] = LATE[:half]
        say("half")
        while restless and not select.select([sys.stdin], [], [], 0)[0]:
            file.view[begin : begin + BLOCK_BYTES] = LATE
        sys.stdin.readline()
        file.view[begin + half : begin + BLOCK_BYTES] = LATE[half:]
        say("whole")
        sys.stdin.readline()
        try:
            checksums = [xxh3_64_intdigest(LATE)]
            await client.complete_store(prepared.lease, checksums=checksums)
            say(json.dumps("completed"))
        except KvtierError as error:
            say(json.dumps(error.code.name))
        await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), restless=len(sys.argv) > 3))
