"""Blocks of an engine's paged KV tensors, as payloads."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed; see the group torch-cpu")

from kvtier.client.torch import PagedKV, buffers  # noqa: E402 - needs torch

LAYERS, BLOCKS, TOKENS, HEADS, DIM = 3, 7, 4, 2, 5
DTYPES = ["float32", "bfloat16", "float8_e4m3fn", "uint8"]
IDS = [5, 0, 6, 2]

Make = Callable[..., Any]


def noise(*shape: int, dtype: str = "bfloat16", seed: int = 0) -> Any:
    """A tensor of random bytes."""
    kind = getattr(torch, dtype)
    generator = torch.Generator().manual_seed(seed)
    wide = [*shape[:-1], shape[-1] * kind.itemsize]
    return torch.randint(0, 256, wide, dtype=torch.uint8, generator=generator).view(kind)


def layers(*shape: int, dtype: str) -> list[Any]:
    return [noise(*shape, dtype=dtype, seed=layer) for layer in range(LAYERS)]


def flash_attention(dtype: str) -> tuple[Any, int]:
    return layers(2, BLOCKS, TOKENS, HEADS, DIM, dtype=dtype), 1


def flash_infer(dtype: str) -> tuple[Any, int]:
    sides_last = [each.transpose(0, 1).contiguous() for each in flash_attention(dtype)[0]]
    return sides_last, 0


def stacked(dtype: str) -> tuple[Any, int]:
    return torch.stack(flash_attention(dtype)[0]), 2


def stacked_by_block(dtype: str) -> tuple[Any, int]:
    return torch.stack(flash_infer(dtype)[0]), 1


def mla(dtype: str) -> tuple[Any, int]:
    return layers(BLOCKS, TOKENS, DIM, dtype=dtype), 0


KV_LAYOUTS = [flash_attention, flash_infer, stacked, stacked_by_block]


def raw(tensor: Any) -> bytes:
    return bytes(tensor.contiguous().view(torch.uint8).flatten().tolist())


def expected(dtype: str, block: int) -> bytes:
    """Layer by layer, K and then V, each as it lies in the engine's block."""
    sides = [layer[side, block] for layer in flash_attention(dtype)[0] for side in (0, 1)]
    return b"".join(map(raw, sides))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", KV_LAYOUTS)
def test_a_payload_is_layer_by_layer_k_then_v(layout: Make, dtype: str) -> None:
    """The same bytes, however the engine keeps its blocks."""
    tensors, block_dim = layout(dtype)
    paged = PagedKV(tensors, block_dim=block_dim)

    payloads = paged.gather(IDS)

    assert (paged.blocks, payloads.shape) == (BLOCKS, (len(IDS), paged.block_bytes))
    assert [raw(row) for row in payloads] == [expected(dtype, block) for block in IDS]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_payload_of_mla_is_layer_by_layer(dtype: str) -> None:
    """There are no sides."""
    tensors, block_dim = mla(dtype)

    payloads = PagedKV(tensors, block_dim=block_dim).gather(IDS)

    assert [raw(row) for row in payloads] == [
        b"".join(raw(layer[block]) for layer in tensors) for block in IDS
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", [*KV_LAYOUTS, mla])
def test_scatter_is_the_reverse_of_gather_and_leaves_other_blocks(layout: Make, dtype: str) -> None:
    """What was gathered goes to other blocks of another engine's tensors."""
    tensors, block_dim = layout(dtype)
    source = PagedKV(tensors, block_dim=block_dim)
    empty = (
        [torch.zeros_like(each) for each in tensors]
        if isinstance(tensors, list)
        else torch.zeros_like(tensors)
    )
    target = PagedKV(empty, block_dim=block_dim)
    places = [1, 3, 0, 6]

    target.scatter(places, source.gather(IDS))

    assert torch.equal(target.gather(places), source.gather(IDS))
    assert not target.gather([2, 4, 5]).any()


def test_payloads_pass_between_layouts() -> None:
    """One engine stores what another loads."""
    (source, block_dim), (target, other_dim) = flash_infer("bfloat16"), stacked("bfloat16")
    target.zero_()

    payloads = PagedKV(source, block_dim=block_dim).gather(IDS)
    PagedKV(target, block_dim=other_dim).scatter(IDS, payloads)

    for layer, tensor in enumerate(source):
        assert raw(target[layer][:, IDS]) == raw(tensor[IDS].transpose(0, 1))


def test_payloads_are_gathered_into_a_tensor_of_the_caller() -> None:
    """No other is made."""
    tensors, block_dim = flash_attention("bfloat16")
    paged = PagedKV(tensors, block_dim=block_dim)
    out = torch.empty((2, paged.block_bytes), dtype=torch.uint8)

    assert paged.gather([4, 4], out=out) is out
    assert raw(out[0]) == raw(out[1]) == expected("bfloat16", 4)


def test_buffers_go_to_a_node_and_come_back() -> None:
    """As `store` takes them and `load` gives them; those on the CPU are not copied."""
    tensors, block_dim = flash_attention("bfloat16")
    paged = PagedKV(tensors, block_dim=block_dim)
    payloads = paged.gather(IDS)

    views = buffers(payloads)
    payloads[0, 0] ^= 1

    assert views[0][0] == payloads[0, 0]
    stored = [bytes(view) for view in views]
    paged.scatter(IDS, [stored[0], bytearray(stored[1]), memoryview(stored[2]), views[3]])
    assert [raw(row) for row in paged.gather(IDS)] == stored


@pytest.mark.parametrize("block_ids", [[], torch.tensor([], dtype=torch.int32)])
def test_no_blocks_are_no_payloads(block_ids: Any) -> None:
    """Nothing is read or written."""
    paged = PagedKV(noise(BLOCKS, TOKENS, DIM), block_dim=0)

    payloads = paged.gather(block_ids)
    paged.scatter(block_ids, payloads)
    paged.scatter(block_ids, [])

    assert payloads.shape == (0, paged.block_bytes)


def test_the_description_is_the_same_for_the_same_payloads() -> None:
    """It names the dtype, the order and the shape of a payload, and its size."""
    described = [
        PagedKV(tensors, block_dim=block_dim, order="HND").describe()
        for tensors, block_dim in (layout("bfloat16") for layout in KV_LAYOUTS)
    ]

    assert described == [
        {"dtype": "bfloat16", "layout": "HND[3,2,4,2,5]", "block_bytes": [3 * 2 * 4 * 2 * 5 * 2]}
    ] * len(KV_LAYOUTS)


def test_layers_of_different_shapes_are_described_in_runs() -> None:
    """As of a model that mixes kinds of attention."""
    tensors = [noise(BLOCKS, size, DIM) for size in (4, 4, 8)]

    assert PagedKV(tensors, block_dim=0).describe()["layout"] == "NHD[2,4,5][1,8,5]"


@pytest.mark.parametrize(
    ("tensors", "block_dim", "told"),
    [
        ([], 0, "tensors is empty"),
        (noise(7, 4, 5).transpose(0, 1), 1, r"tensor 0 of shape \(4, 7, 5\).* is not contiguous"),
        (noise(7, 4), 1, r"block_dim is 1; tensor 0 has the dimensions \(7, 4\)"),
        (noise(7, 4), -2, "block_dim is -2"),
        (noise(0, 4), 0, r"tensor 0 of shape \(0, 4\) is empty"),
        ([noise(7, 4), noise(6, 4)], 0, "tensor 1 has 6 blocks of .* tensor 0 has 7 blocks"),
        ([noise(7, 4), noise(7, 4, dtype="float32")], 0, "tensor 1 has 7 blocks of torch.float32"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(tensors: Any, block_dim: int, told: str) -> None:
    """Saying which of them, and why."""
    with pytest.raises(ValueError, match=told):
        PagedKV(tensors, block_dim=block_dim)


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        ([0, 7], "there is no block 7; there are 7"),
        ([-1], "there is no block -1"),
        ([[1]], r"block_ids is torch.int64 of shape \(1, 1\)"),
        ([1.5], "block_ids is torch.float32"),
    ],
)
def test_numbers_of_no_block_are_refused(ids: Sequence[Any], told: str) -> None:
    """Before anything is read or written."""
    tensor = noise(BLOCKS, TOKENS, DIM)
    paged, before = PagedKV(tensor, block_dim=0), raw(tensor)

    with pytest.raises(ValueError, match=told):
        paged.gather(ids)
    with pytest.raises(ValueError, match=told):
        paged.scatter(ids, torch.zeros((len(ids), paged.block_bytes), dtype=torch.uint8))

    assert raw(tensor) == before


@pytest.mark.parametrize(
    ("payloads", "told"),
    [
        (torch.zeros((2, 40)), "payloads is torch.float32 of shape"),
        (torch.zeros(80, dtype=torch.uint8), "it must be uint8 of shape"),
        (torch.zeros((2, 39), dtype=torch.uint8), r"payloads has shape \(2, 39\); it must have"),
        ([bytes(40), bytes(41)], "payload 1 has 41 bytes; a block has 40"),
        ([bytes(40)], r"payloads has shape \(1, 40\); it must have \(2, 40\)"),
    ],
)
def test_payloads_that_do_not_fit_are_refused(payloads: Any, told: str) -> None:
    """With what they are and what they must be."""
    paged = PagedKV(noise(BLOCKS, TOKENS, DIM), block_dim=0)

    with pytest.raises(ValueError, match=told):
        paged.scatter([0, 1], payloads)


def test_a_block_is_not_scattered_to_twice() -> None:
    """Which payload it would get is not defined."""
    paged = PagedKV(noise(BLOCKS, TOKENS, DIM), block_dim=0)

    with pytest.raises(ValueError, match="names a block twice"):
        paged.scatter([1, 1], paged.gather([0, 2]))


def test_an_out_that_is_not_in_one_piece_is_refused() -> None:
    """CuPy and the network take it in one piece."""
    paged = PagedKV(noise(BLOCKS, TOKENS, DIM), block_dim=0)
    wide = torch.empty((2, 2 * paged.block_bytes), dtype=torch.uint8)

    with pytest.raises(ValueError, match="out is not contiguous on cpu"):
        paged.gather([0, 1], out=wide[:, ::2])
