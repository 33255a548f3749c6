"""Reading the runs of blocks that a request offers or names."""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kvtier.server.node import Node
from kvtier.server.operations.requests import (
    MAX_OFFERED,
    check_count,
    read_group,
    read_hashes,
    read_scope,
    read_text,
)
from kvtier.server.tiers.offer import Run
from kvtier.server.tiers.spaces import NamespaceInfo
from kvtier.server.tiers.tier import Tier
from kvtier.v1.block_pb2 import BlockRun
from kvtier.wire.errors import Reason, failed_precondition, invalid


@contextmanager
def reading_runs(
    node: Node, tier: Tier, namespace: NamespaceInfo, offered: Sequence[BlockRun]
) -> Iterator[list[Run]]:
    """Give the runs that are offered to a tier, whose spaces stay known meanwhile.

    Raises:
        KvtierError: INVALID_ARGUMENT, or FAILED_PRECONDITION when a block is too large for the
            tier's slots.
    """
    lists = [run.block_hashes for run in offered]
    check_count(node, namespace, lists, "runs", min(MAX_OFFERED, node.config.limits.hashes))
    runs: list[Run] = []
    try:
        for each in offered:
            runs.append(_read_run(node, namespace, each))
            _check_size(tier, runs[-1])
        yield runs
    finally:
        for run in runs:
            node.spaces.release(run.space)


def _check_size(tier: Tier, run: Run) -> None:
    if tier.takes(run.space, run.adapter_name):
        return
    size, space = run.space.block_bytes, run.space
    raise failed_precondition(
        f"a block of group {space.group} of namespace {space.namespace.description.name} has "
        f"{size} bytes; {_remedy(tier, size)}",
        Reason.BLOCK_TOO_LARGE,
    )


def _remedy(tier: Tier, size: int) -> str:
    name = tier.name
    if tier.keeping is not None:
        return f"with what is kept beside it that is too much for tier {name}: enlarge the tier"
    if not tier.slot_bytes:
        return f"the whole tier {name} has {tier.capacity_bytes}: raise its capacity"
    slots = f"the slots of tier {name} have {tier.slot_bytes}"
    return f"{slots}: set slot_bytes of that tier to {size} or more"


def _read_run(node: Node, namespace: NamespaceInfo, run: BlockRun) -> Run:
    tokens, width = namespace.tokens_per_block, namespace.hash_width
    group, scope = read_group(namespace, run.group), read_scope(run.scope)
    hashes = read_hashes(namespace, run.block_hashes)
    if run.start_position % tokens:
        raise invalid(
            f"start_position is {run.start_position}; it must be a multiple of the "
            f"{tokens} tokens per block"
        )
    if run.start_position + len(hashes) * tokens >= 1 << 63:
        raise invalid(f"start_position is {run.start_position}; the run would end beyond 2^63")
    if len(run.parent_block_hash) != (width if run.start_position else 0):
        raise invalid(
            f"parent_block_hash has {len(run.parent_block_hash)} bytes and start_position is "
            f"{run.start_position}: a run that starts at 0 has no parent, any other has one of "
            f"{width} bytes"
        )
    if run.token_ids and len(run.token_ids) != len(hashes) * tokens:
        raise invalid(
            f"token_ids holds {len(run.token_ids)} ids for {len(hashes)} blocks of {tokens} "
            f"tokens; it must hold {len(hashes) * tokens}, or none"
        )
    adapter_name = read_text("adapter_name", run.adapter_name, required=False)
    return Run(
        node.spaces.use(namespace, group, scope),
        hashes,
        run.parent_block_hash,
        run.start_position,
        array("I", run.token_ids).tobytes() if namespace.keep_token_ids else b"",
        adapter_name,
    )
