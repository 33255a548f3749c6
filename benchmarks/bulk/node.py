"""A node of ours, as `kvtier serve` runs it."""

import json
import os
import tempfile
from pathlib import Path

from benchmarks.bulk.child import Child, python
from benchmarks.bulk.contender import MOST_BYTES
from kvtier.v1.namespace_pb2 import Namespace

WIDTH = 32
NAMESPACE = Namespace(
    name="bench",
    model="meta-llama/Llama-3.1-8B",
    revision="main",
    dtype="bfloat16",
    layout="NHD",
    tokens_per_block=16,
    block_bytes=[2 << 20],
    tp_size=1,
    pp_size=1,
    hash_algorithm="sha256",
    hash_width=WIDTH,
)


def start() -> Child:
    """Start a node with one host tier, `cpu0`, that has room for two of the largest batches."""
    settings = {
        "node_id": f"bench-{os.getpid()}",
        "listen": "127.0.0.1:0",
        "drain_timeout": 0,
        "log_level": "warning",
        "tiers": [
            {"name": "cpu0", "medium": "cpu", "capacity": 2 * MOST_BYTES, "slot_bytes": 2 << 20}
        ],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "node.yaml"
        path.write_text(json.dumps(settings))
        return Child(python("kvtier.server", "--config", str(path)))


def hashes_of(batch: int, blocks: int) -> bytes:
    """Return the hashes of a batch's blocks, as a request has them."""
    return b"".join((batch << 32 | place).to_bytes(WIDTH, "big") for place in range(blocks))
