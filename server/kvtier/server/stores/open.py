"""Opening the store that a tier's configuration asks for."""

from kvtier.server.config import TierConfig
from kvtier.server.lasting.files import FileShelf
from kvtier.server.lasting.health import Health
from kvtier.server.lasting.lane import Lane
from kvtier.server.lasting.open_objects import open_objects
from kvtier.server.lasting.shelf import Shelf
from kvtier.server.lasting.store import LastingStore
from kvtier.server.stores.base import BlockStore, StoreError
from kvtier.server.stores.devices import find_device
from kvtier.server.stores.gpu import GpuStore
from kvtier.server.stores.host import HostStore
from kvtier.v1.block_pb2 import Medium

# Requests to an object store are slow one by one, whatever their size: each has a thread.
_PART_BYTES = {"fs": 1 << 20, "obj": 1}
_MEDIA = {"fs": Medium.MEDIUM_FS, "obj": Medium.MEDIUM_OBJ}


def open_store(tier: TierConfig, node_id: str, spare_bytes: int = 0) -> BlockStore | LastingStore:
    """Open a tier's store, with all of its memory.

    Args:
        tier: The tier's configuration.
        node_id: The node's id.
        spare_bytes: Bytes beyond the tier's capacity.

    Raises:
        StoreError: When it cannot be opened; the message names the tier.
    """
    try:
        if tier.lasts:
            return keep_on(_open_shelf(tier, node_id), tier)
        size = tier.capacity + spare_bytes
        if tier.medium == "gpu":
            return GpuStore(find_device(tier.device), size)
        return HostStore(tier.shm_dir, node_id, tier.name, size)
    except StoreError as error:
        raise StoreError(f"tier {tier.name}: {error}") from error


def keep_on(shelf: Shelf, tier: TierConfig) -> LastingStore:
    """Return the store of a tier that keeps its blocks on a shelf."""
    return LastingStore(
        shelf,
        Lane(tier.name, tier.io_threads, tier.io_timeout),
        Health(),
        medium=_MEDIA[tier.medium],
        capacity_bytes=tier.capacity,
        part_bytes=_PART_BYTES[tier.medium],
    )


def _open_shelf(tier: TierConfig, node_id: str) -> Shelf:
    if tier.directory is not None:
        return FileShelf(tier.directory, sync=tier.sync)
    return open_objects(tier, node_id)
