"""Blocks of an engine's paged KV tensors."""

from collections.abc import Sequence
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING, TypedDict

import torch

from kvtier.client.torch.buffers import check_payloads, from_buffers

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Described(TypedDict):
    """The fields of a `kvtier.v1` `Namespace` that follow from an engine's tensors."""

    dtype: str
    layout: str
    block_bytes: list[int]


class PagedKV:
    """An engine's paged KV tensors, as blocks of bytes.

    The payload of a block is, for each tensor in order, everything that the tensor has of the
    block, in row-major order. So it is layer by layer, in each layer first K then V, and inside
    these the tensor's own order, whichever way the engine keeps its blocks:

    | tensors | block_dim |
    |---|---|
    | a layer each, (2, blocks, block_size, heads, dim), as FlashAttention has them | 1 |
    | a layer each, (blocks, 2, block_size, heads, dim), as FlashInfer has them | 0 |
    | a layer each, (blocks, block_size, dim), as MLA has them | 0 |
    | one for all layers, (layers, 2, blocks, ...) | 2 |
    | one for all layers, (layers, blocks, 2, ...) | 1 |

    Heads ahead of tokens inside a block (HND) is another `order`, and another payload.

    Args:
        tensors: One tensor a layer, in order, or one for all; contiguous, of one dtype, on one
            device.
        block_dim: The dimension that counts blocks, the same in each; not the last.
        order: The engine's name for the order of a block's inner dimensions, such as NHD or HND.

    Attributes:
        blocks: Number of blocks.
        block_bytes: Bytes of a payload.
        device: Where the tensors are.

    Raises:
        ValueError: When the tensors are not such.
    """

    def __init__(
        self,
        tensors: torch.Tensor | Sequence[torch.Tensor],
        *,
        block_dim: int,
        order: str = "NHD",
    ) -> None:
        layers = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        _check(layers, block_dim)
        self.device: torch.device = layers[0].device
        self.blocks: int = layers[0].shape[block_dim]
        self._dtype = str(layers[0].dtype).removeprefix("torch.")
        self._layout = order + _shapes(layers, block_dim, stacked=isinstance(tensors, torch.Tensor))
        self._parts = [_by_block(layer, block_dim) for layer in layers]
        self._sizes = [prod(part.shape[1:]) for part in self._parts]
        self.block_bytes: int = sum(self._sizes)

    def describe(self) -> Described:
        """Return what a `Namespace` says of blocks like these: `Namespace(name=…, **described)`.

        It is the same for all ways to keep the same payloads.
        """
        return {
            "dtype": self._dtype,
            "layout": self._layout,
            "block_bytes": [self.block_bytes],
        }

    def gather(
        self, block_ids: Sequence[int] | torch.Tensor, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return payloads of blocks, of shape (len(block_ids), block_bytes), in bytes.

        On a GPU the work is put on the current stream and not waited for.

        Args:
            block_ids: Numbers of blocks; the same may come twice.
            out: Where to put them: contiguous, of that shape, on the tensors' device; None makes
                it.

        Raises:
            ValueError: When a number is not one of a block, or `out` does not fit.
        """
        ids = self._ids(block_ids)
        shape = (len(ids), self.block_bytes)
        if out is None:
            out = torch.empty(shape, dtype=torch.uint8, device=self.device)
        self._check_payloads(out, shape, "out")
        if out.device != self.device or not out.is_contiguous():
            raise ValueError(f"out is not contiguous on {self.device}, where the tensors are")
        for part, payload in zip(self._parts, self._split(out), strict=True):
            torch.index_select(part, 0, ids, out=payload)
        return out

    def scatter(
        self,
        block_ids: Sequence[int] | torch.Tensor,
        payloads: "torch.Tensor | Sequence[Buffer]",
    ) -> None:
        """Put payloads into blocks.

        On a GPU the work is put on the current stream and not waited for.

        Args:
            block_ids: Numbers of blocks, each once.
            payloads: Bytes, of shape (len(block_ids), block_bytes), on any device; or a buffer for
                each block, such as `NodeClient.load` gives.

        Raises:
            ValueError: When a number is not one of a block or comes twice, or the payloads do not
                fit.
        """
        ids = self._ids(block_ids, once=True)
        if not isinstance(payloads, torch.Tensor):
            payloads = from_buffers(payloads, self.block_bytes, pinned=self.device.type == "cuda")
        self._check_payloads(payloads, (len(ids), self.block_bytes), "payloads")
        payloads = payloads.to(self.device, non_blocking=True)
        for part, payload in zip(self._parts, self._split(payloads), strict=True):
            part.index_copy_(0, ids, payload)

    def _split(self, payloads: torch.Tensor) -> list[torch.Tensor]:
        """Return views of the tensors' shares of payloads, in the shape of each tensor's blocks."""
        shares = payloads.split(self._sizes, dim=1)
        shapes = [part.shape[1:] for part in self._parts]
        return [share.unflatten(1, shape) for share, shape in zip(shares, shapes, strict=True)]

    def _ids(self, block_ids: Sequence[int] | torch.Tensor, *, once: bool = False) -> torch.Tensor:
        # Checked on the host: a wrong number ends a GPU's whole process.
        ids = torch.as_tensor(block_ids, device="cpu")
        if ids.dim() != 1 or (len(ids) and ids.is_floating_point()):
            raise ValueError(f"block_ids is {ids.dtype} of shape {tuple(ids.shape)}; give integers")
        ids = ids.to(torch.int64)
        wrong = ids[(ids < 0) | (ids >= self.blocks)]
        if len(wrong):
            raise ValueError(f"there is no block {wrong[0]}; there are {self.blocks}, from 0 on")
        if once and len(ids.unique()) < len(ids):
            raise ValueError("block_ids names a block twice; which payload it gets is not defined")
        return ids.to(self.device)

    def _check_payloads(self, payloads: torch.Tensor, shape: tuple[int, int], name: str) -> None:
        check_payloads(payloads)
        if tuple(payloads.shape) != shape:
            raise ValueError(f"{name} has shape {tuple(payloads.shape)}; it must have {shape}")


def _by_block(tensor: torch.Tensor, block_dim: int) -> torch.Tensor:
    """Return a view of a tensor's bytes of shape (blocks, what lies ahead of blocks, bytes)."""
    blocks = tensor.shape[block_dim]
    ahead = prod(tensor.shape[:block_dim])
    return tensor.view(torch.uint8).view(ahead, blocks, -1).transpose(0, 1)


def _shapes(layers: Sequence[torch.Tensor], block_dim: int, *, stacked: bool) -> str:
    """Return the shapes of payloads, such as [32,2,16,8,128] for 32 layers alike."""
    shapes = [[*layer.shape[:block_dim], *layer.shape[block_dim + 1 :]] for layer in layers]
    runs = [[len(list(run)), *shape] for shape, run in groupby(shapes)]
    told = shapes if stacked else runs
    return "".join(f"[{','.join(map(str, shape))}]" for shape in told)


def _check(layers: Sequence[torch.Tensor], block_dim: int) -> None:
    if not layers:
        raise ValueError("tensors is empty; it must have one tensor a layer, or one for all")
    first = layers[0]
    for place, layer in enumerate(layers):
        if not 0 <= block_dim < layer.dim() - 1:
            raise ValueError(
                f"block_dim is {block_dim}; tensor {place} has the dimensions "
                f"{tuple(layer.shape)}, and blocks are counted by any of them but the last"
            )
        if not layer.numel():
            raise ValueError(f"tensor {place} of shape {tuple(layer.shape)} is empty")
        if not layer.is_contiguous():
            raise ValueError(
                f"tensor {place} of shape {tuple(layer.shape)} and strides {layer.stride()} is not "
                "contiguous; give the tensor that the engine allocated, not a permuted view of it"
            )
        told, wanted = _kind(layer, block_dim), _kind(first, block_dim)
        if told != wanted:
            raise ValueError(f"tensor {place} has {told}; tensor 0 has {wanted}")


def _kind(layer: torch.Tensor, block_dim: int) -> str:
    return f"{layer.shape[block_dim]} blocks of {layer.dtype} on {layer.device}"
