"""The parts of a batch that came from a node, encoded once for all who follow."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from kvtier.server.events.parts import CLEARED, REMOVED, STORED, Part
from kvtier.v1.event_service_pb2 import BlockRemoved, BlockStored, EventBatch
from kvtier.wire.errors import quote

Widths: TypeAlias = Mapping[bytes, int]
Places: TypeAlias = Mapping[str, int]


def parts_of(batch: EventBatch, places: Places, widths: Widths) -> list[Part]:
    """Return the parts of a batch in their order: clears, removals, stores.

    Args:
        batch: The batch, in the FULL view.
        places: The index of each tier, by name.
        widths: The bytes of a hash, by namespace.

    Raises:
        ValueError: When the batch is empty, or names a tier or namespace that was not introduced.
    """
    parts = list(_parts(batch, places, widths))
    if not parts:
        raise ValueError("the batch is empty")
    return parts


def _parts(batch: EventBatch, places: Places, widths: Widths) -> Iterator[Part]:
    for cleared in batch.cleared:
        place = _place(cleared.tier, places)
        message = cleared.SerializeToString()
        yield Part(CLEARED, place, cleared.medium, cleared.namespace, message, message, 0)
    for removed in batch.removed:
        place, blocks = _place(removed.tier, places), _blocks(removed, widths)
        message = removed.SerializeToString()
        yield Part(REMOVED, place, removed.medium, removed.namespace, message, message, blocks)
    for stored in batch.stored:
        place, blocks = _place(stored.tier, places), _blocks(stored, widths)
        full = stored.SerializeToString()
        basic = _without_token_ids(stored) if stored.token_ids else full
        yield Part(STORED, place, stored.medium, stored.namespace, basic, full, blocks)


def _place(tier: str, places: Places) -> int:
    place = places.get(tier)
    if place is None:
        raise ValueError(f"tier {quote(tier)} was not introduced")
    return place


def _blocks(event: BlockRemoved | BlockStored, widths: Widths) -> int:
    width = widths.get(event.namespace)
    if width is None:
        raise ValueError("the namespace was not described")
    blocks, rest = divmod(len(event.block_hashes), width)
    if rest or not blocks:
        raise ValueError(f"{len(event.block_hashes)} bytes are no hashes of {width} bytes each")
    return blocks


def _without_token_ids(stored: BlockStored) -> bytes:
    basic = BlockStored()
    basic.CopyFrom(stored)
    basic.ClearField("token_ids")
    return basic.SerializeToString()
