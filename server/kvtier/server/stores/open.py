"""Opening the store that a tier's configuration asks for."""

from kvtier.server.config import TierConfig
from kvtier.server.stores.base import BlockStore, StoreError
from kvtier.server.stores.devices import find_device
from kvtier.server.stores.gpu import GpuStore
from kvtier.server.stores.host import HostStore


def open_store(tier: TierConfig, node_id: str, spare_bytes: int = 0) -> BlockStore:
    """Open a tier's store, with all of its memory.

    Args:
        tier: The tier's configuration.
        node_id: The node's id.
        spare_bytes: Bytes beyond the tier's capacity.

    Raises:
        StoreError: When it cannot be opened; the message names the tier.
    """
    size = tier.capacity + spare_bytes
    try:
        if tier.medium == "gpu":
            return GpuStore(find_device(tier.device), size)
        return HostStore(tier.shm_dir, node_id, tier.name, size)
    except StoreError as error:
        raise StoreError(f"tier {tier.name}: {error}") from error
