"""Spare slots: where blocks of two full tiers pass each other."""

_MOST_SLOTS = 256


def divide(capacity_bytes: int, store_bytes: int, slot_bytes: int) -> tuple[int, int]:
    """Return how many blocks a tier may hold, and how many spare slots it has beside them.

    Args:
        capacity_bytes: The tier's capacity.
        store_bytes: Bytes of its store; more than the capacity where blocks change places.
        slot_bytes: Bytes of a slot.
    """
    blocks, slots = capacity_bytes // slot_bytes, store_bytes // slot_bytes
    if store_bytes > capacity_bytes and slots == blocks > 1:
        blocks -= 1
    return blocks, min(slots - blocks, _MOST_SLOTS)
