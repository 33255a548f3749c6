"""MapTier."""

from kvtier.server.mappings import as_cuda
from kvtier.server.node import Node
from kvtier.server.stores.host import HostStore
from kvtier.v1.mapping_pb2 import CudaMemory, SharedFile
from kvtier.v1.transfer_service_pb2 import MapTierRequest, MapTierResponse
from kvtier.wire.errors import Reason, failed_precondition
from kvtier.wire.shared_memory import DATA_OFFSET


def map_tier(node: Node, request: MapTierRequest) -> MapTierResponse:
    """Tell where a tier's memory is."""
    tier = node.tier(request.tier)
    store = tier.store
    if isinstance(store, HostStore):
        mapping = node.mappings.give()
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
    cuda = as_cuda(store)
    handle = cuda.ipc_handle() if cuda is not None else None
    if cuda is None or handle is None:
        raise failed_precondition(
            f"tier {tier.name} ({store.device}) is not mappable: use WriteBlocks and ReadBlocks",
            Reason.NOT_MAPPABLE,
        )
    return MapTierResponse(
        mapping=node.mappings.give(),
        slot_bytes=tier.slot_bytes,
        cuda=CudaMemory(
            ipc_handle=handle, device_uuid=cuda.device_uuid, size_bytes=cuda.capacity_bytes
        ),
    )
