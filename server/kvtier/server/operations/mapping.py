"""MapTier."""

from kvtier.server.mappings import not_mappable
from kvtier.server.node import Node
from kvtier.server.stores.gpu import GpuStore
from kvtier.server.stores.host import HostStore
from kvtier.server.tiers.tier import Tier
from kvtier.v1.mapping_pb2 import CudaMemory, SharedFile
from kvtier.v1.transfer_service_pb2 import MapTierRequest, MapTierResponse
from kvtier.wire.shared_memory import DATA_OFFSET


def map_tier(node: Node, request: MapTierRequest) -> MapTierResponse:
    """Tell where a tier's memory is."""
    tier = node.tier(request.tier)
    if isinstance(tier.store, HostStore):
        return _shared_file(node, tier, tier.store)
    cuda = _cuda_memory(tier)
    return MapTierResponse(mapping=node.mappings.give(tier), slot_bytes=tier.slot_bytes, cuda=cuda)


def _shared_file(node: Node, tier: Tier, store: HostStore) -> MapTierResponse:
    mapping = node.mappings.give(tier)
    return MapTierResponse(
        mapping=mapping,
        slot_bytes=tier.slot_bytes,
        shared_file=SharedFile(
            name=store.path.name,
            directory=str(store.path.parent),
            cookie=store.cookie,
            data_offset=DATA_OFFSET,
            size_bytes=store.file_bytes,
            lock_offset=node.mappings.lock_offset(store, mapping),
        ),
    )


def _cuda_memory(tier: Tier) -> CudaMemory:
    store = tier.store
    if tier.keeping is not None:
        raise not_mappable(tier, "its blocks are not in memory")
    if not isinstance(store, GpuStore):
        raise not_mappable(tier, "its memory cannot be shared")
    try:
        handle = store.ipc_handle()
        if handle is None:
            raise not_mappable(tier, "there is no GPU")
        return CudaMemory(
            ipc_handle=handle, device_uuid=store.device_uuid, size_bytes=store.capacity_bytes
        )
    except (OSError, RuntimeError) as error:
        raise not_mappable(tier, str(error)) from error
