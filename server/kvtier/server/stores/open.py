"""Opening the store that a tier's configuration asks for."""

from kvtier.server.config import TierConfig
from kvtier.server.stores.base import BlockStore, StoreError
from kvtier.server.stores.devices import find_device
from kvtier.server.stores.gpu import GpuStore
from kvtier.server.stores.host import HostStore


def open_store(tier: TierConfig, node_id: str) -> BlockStore:
    """Open a tier's store, with all of its memory.

    Raises:
        StoreError: When it cannot be opened; the message names the tier.
    """
    try:
        if tier.medium == "gpu":
            return GpuStore(find_device(tier.device), tier.capacity)
        return HostStore(tier.shm_dir, node_id, tier.name, tier.capacity)
    except StoreError as error:
        raise StoreError(f"tier {tier.name}: {error}") from error
