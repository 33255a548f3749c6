"""Payloads as Python buffers, and buffers as payloads."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from typing_extensions import Buffer


def buffers(payloads: torch.Tensor) -> list[memoryview]:
    """Return the payloads of a tensor one by one, as `NodeClient.store` takes them.

    Payloads on the CPU are not copied: they must not change before the store is done. Those on a
    GPU are copied to the host first.

    Args:
        payloads: Bytes, of shape (blocks, block_bytes).

    Raises:
        ValueError: When it is not a tensor of bytes of two dimensions.
    """
    check_payloads(payloads)
    return [memoryview(row) for row in payloads.cpu().contiguous().numpy()]


def from_buffers(payloads: Sequence["Buffer"], block_bytes: int, *, pinned: bool) -> torch.Tensor:
    """Return a tensor on the CPU with one row for each buffer.

    Args:
        payloads: Objects that have `block_bytes` bytes each.
        block_bytes: Bytes of a block.
        pinned: Whether the memory is pinned, for a copy to a GPU.

    Raises:
        ValueError: When a buffer has another size.
    """
    tensor = torch.empty((len(payloads), block_bytes), dtype=torch.uint8, pin_memory=pinned)
    for place, (row, payload) in enumerate(zip(tensor.numpy(), payloads, strict=True)):
        view = memoryview(payload).cast("B")
        if len(view) != block_bytes:
            raise ValueError(f"payload {place} has {len(view)} bytes; a block has {block_bytes}")
        memoryview(row)[:] = view
    return tensor


def check_payloads(payloads: torch.Tensor) -> None:
    """Raise ValueError when a tensor is not bytes of two dimensions."""
    if payloads.dtype != torch.uint8 or payloads.dim() != 2:
        raise ValueError(
            f"payloads is {payloads.dtype} of shape {tuple(payloads.shape)}; it must be uint8 of "
            "shape (blocks, block_bytes)"
        )
