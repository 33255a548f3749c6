"""From what a node answers to places, slots and results."""

from collections.abc import Iterable, Sequence

from kvtier.client.chunks import framing_error
from kvtier.v1.block_pb2 import BlockRun, BlockSet
from kvtier.v1.result_pb2 import CompleteResult, StoreOutcome, WriteResult
from kvtier.v1.tier_service_pb2 import PrepareStoreResponse
from kvtier.wire.hashes import split_hashes

_WRITE = StoreOutcome.STORE_OUTCOME_WRITE
_WRITTEN_AS = {
    CompleteResult.COMPLETE_RESULT_STORED: WriteResult.WRITE_RESULT_STORED,
    CompleteResult.COMPLETE_RESULT_FAILED: WriteResult.WRITE_RESULT_INCOMPLETE,
    CompleteResult.COMPLETE_RESULT_NOT_WRITTEN: WriteResult.WRITE_RESULT_INCOMPLETE,
    CompleteResult.COMPLETE_RESULT_DELETED: WriteResult.WRITE_RESULT_ABORTED,
}


def places_to_write(
    answer: PrepareStoreResponse, runs: Iterable[BlockRun], width: int
) -> list[int]:
    """Return the place in the offer of each slot that the node told.

    Args:
        answer: The node's answer, with a slot for each block to write, each block once.
        runs: The offer.
        width: Bytes of each hash.

    Raises:
        KvtierError: INTERNAL, when the node told more or fewer slots.
    """
    outcomes = answer.outcomes
    places = [place for place, outcome in enumerate(outcomes) if outcome == _WRITE]
    if len(places) == len(answer.slots):
        return places
    first: dict[tuple[int, bytes, bytes], int] = {}
    for place, key in enumerate(_keys(runs, width)):
        if outcomes[place] == _WRITE:
            first.setdefault(key, place)
    if len(first) != len(answer.slots):
        raise framing_error(f"{len(answer.slots)} slots for {len(first)} blocks to write")
    return list(first.values())


def write_results(results: Iterable[CompleteResult.ValueType]) -> list[WriteResult.ValueType]:
    """Return what became of each block of a completed lease, in the words of a write."""
    nothing = WriteResult.WRITE_RESULT_UNSPECIFIED
    return [_WRITTEN_AS.get(result, nothing) for result in results]


def some_of(sets: Iterable[BlockSet], width: int, places: Sequence[int]) -> list[BlockSet]:
    """Return a set for each block at some places."""
    keys = list(_keys(sets, width))
    return [
        BlockSet(group=group, scope=scope, block_hashes=block_hash)
        for group, scope, block_hash in (keys[place] for place in places)
    ]


def _keys(parts: Iterable[BlockRun | BlockSet], width: int) -> Iterable[tuple[int, bytes, bytes]]:
    for part in parts:
        for block_hash in split_hashes(part.block_hashes, width):
            yield part.group, part.scope, block_hash
