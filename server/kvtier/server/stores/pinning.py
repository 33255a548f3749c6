"""Fixing host tiers in place, so that a GPU of the node reaches them without staging."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import structlog

from kvtier.server.stores.base import BlockStore, Bytes
from kvtier.server.stores.gpu import GpuStore

_log = structlog.get_logger(__name__)


@contextmanager
def pinned(stores: Sequence[BlockStore]) -> Iterator[None]:
    """Fix the memory of a node's host tiers in place while the body runs, if it has a GPU tier.

    A store that cannot be fixed still works, through staging memory; a warning tells.

    Args:
        stores: The node's open stores, which stay open meanwhile.
    """
    gpus = [store for store in stores if isinstance(store, GpuStore)]
    with ExitStack() as undo:
        if gpus:
            gpu = min(gpus, key=lambda store: store.device == "emulated")
            for store in stores:
                _pin(gpu, store, undo)
        yield


def _pin(gpu: GpuStore, store: BlockStore, undo: ExitStack) -> None:
    for memory in store.views([0], [store.capacity_bytes]) or ():
        if not memory.size:
            continue
        try:
            gpu.pin(memory)
        except RuntimeError as error:
            _log.warning(
                "host memory cannot be pinned; copies to and from the GPU are slower",
                bytes=memory.size,
                reason=str(error),
            )
        else:
            undo.callback(_unpin, gpu, memory)


def _unpin(gpu: GpuStore, memory: Bytes) -> None:
    # A GPU that failed says so to everything; the kernel lets go of the memory with the process.
    with suppress(RuntimeError):
        gpu.unpin(memory)
