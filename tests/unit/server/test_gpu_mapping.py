"""A GPU tier is mapped by its CUDA IPC handle, where it has one."""

from collections.abc import Iterator

import pytest

from kvtier.server.stores.emulated import EmulatedDevice
from kvtier.server.stores.gpu import GpuStore
from kvtier.v1.tier_service_pb2 import PrepareStoreResponse
from kvtier.v1.transfer_service_pb2 import MapTierRequest
from kvtier.wire.errors import KvtierError, Reason
from tests.contract.support import cpu_tier, run

from .support import TIER, LocalNode

HANDLE, UUID = b"h" * 64, "GPU-0000"


class CudaMemoryStore(GpuStore):
    """A store that says that its memory has a handle."""

    error: RuntimeError | None = None
    driver_error: OSError | None = None
    handle: bytes | None = HANDLE

    def ipc_handle(self) -> bytes | None:
        if self.error:
            raise self.error
        return self.handle

    @property
    def device_uuid(self) -> str:
        if self.driver_error:
            raise self.driver_error
        return UUID


@pytest.fixture
def store() -> CudaMemoryStore:
    return CudaMemoryStore(EmulatedDevice(), 4 * 64)


@pytest.fixture
def local(store: CudaMemoryStore) -> Iterator[LocalNode]:
    """A node whose first tier is in such a store; the second has a handle in any case."""
    local = LocalNode(cpu_tier(4), cpu_tier(4, "other"))
    local.tier.store = store
    local.node.tiers[1].store = CudaMemoryStore(EmulatedDevice(), 4 * 64)
    yield local
    local.close()


def prepare(local: LocalNode, mapping: int) -> PrepareStoreResponse:
    return local.prepare(run("a"), locate=True, mapping=mapping)[1]


def test_it_tells_the_handle_the_gpu_and_the_bytes(local: LocalNode) -> None:
    """The slots begin at the beginning of the memory."""
    told = local.transfers.map_tier(MapTierRequest(tier=TIER))

    assert (told.cuda.ipc_handle, told.cuda.device_uuid) == (HANDLE, UUID)
    assert (told.cuda.size_bytes, told.slot_bytes) == (256, 64)
    assert list(prepare(local, told.mapping).slots) == [0]


def test_a_late_writer_keeps_its_slots_until_time_has_passed(local: LocalNode) -> None:
    """There is no lock by which a process could be seen to have died."""
    told = local.transfers.map_tier(MapTierRequest(tier=TIER))
    prepare(local, told.mapping)

    local.clock.advance(31)
    local.node.expire_leases()
    kept = local.tier.occupancy.quarantined
    local.clock.advance(60)
    local.node.expire_leases()

    assert (kept, local.tier.occupancy.quarantined) == (1, 0)
    assert local.gauges() == {"free": 4}


@pytest.mark.parametrize("error", [None, RuntimeError("integrated GPU")])
def test_one_without_a_handle_is_refused_with_its_reason(
    local: LocalNode, store: CudaMemoryStore, error: RuntimeError | None
) -> None:
    """And tells no slots to anybody."""
    store.handle, store.error = None, error
    number = local.transfers.map_tier(MapTierRequest(tier="other")).mapping

    with pytest.raises(KvtierError, match=str(error or "there is no GPU")) as refused:
        local.transfers.map_tier(MapTierRequest(tier=TIER))
    with pytest.raises(KvtierError, match="is not locked"):
        prepare(local, number)

    assert refused.value.reason == Reason.NOT_MAPPABLE


def test_one_whose_driver_is_not_there_is_refused(local: LocalNode, store: CudaMemoryStore) -> None:
    """A library that cannot be opened is no error of the server's own."""
    store.driver_error = OSError("libcuda.so.1: cannot open shared object file")

    with pytest.raises(KvtierError, match=r"is not mappable, libcuda\.so\.1") as refused:
        local.transfers.map_tier(MapTierRequest(tier=TIER))

    assert refused.value.reason == Reason.NOT_MAPPABLE
