"""Tensors of torch as payloads: also of types that Python's buffers do not know."""

from typing import Any

import pytest

from kvtier.client import InvalidArgumentError
from kvtier.client.mapped.buffers import read_payloads, read_targets

torch: Any = pytest.importorskip("torch", reason="torch is not installed; pip install torch")


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "uint8"])
def test_a_tensors_bytes_are_read_and_written_where_they_are(name: str) -> None:
    """In host memory, contiguous, of any type."""
    source = torch.arange(64, dtype=torch.float32).to(getattr(torch, name))
    target = torch.zeros_like(source)
    size = source.numel() * source.element_size()

    (given,) = read_payloads("payloads", [source], [size])
    (into,) = read_targets("into", [target], [size])
    into.view[:] = given.view

    assert torch.equal(source.view(torch.uint8), target.view(torch.uint8))


def test_a_part_of_a_tensor_is_read_from_where_it_begins() -> None:
    """The rows of a larger one."""
    whole = torch.arange(256, dtype=torch.uint8).reshape(16, 16)

    (given,) = read_payloads("payloads", [whole[3:5]], [32])

    assert bytes(given.view) == bytes(range(48, 80))


def test_what_is_not_contiguous_is_refused() -> None:
    """With what to do."""
    with pytest.raises(InvalidArgumentError, match=r"payloads\[0\] is not contiguous.*contiguous"):
        read_payloads("payloads", [torch.zeros(16, 16, dtype=torch.bfloat16)[:, :8]], [256])


def test_a_tensor_that_needs_its_gradient_is_refused_with_torchs_reason() -> None:
    """Such a tensor is not exported."""
    tensor = torch.zeros(16, requires_grad=True)

    with pytest.raises(InvalidArgumentError, match="grad"):
        read_payloads("payloads", [tensor], [64])
