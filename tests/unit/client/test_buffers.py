"""What may be given as the bytes of a block."""

import ctypes
from array import array
from typing import Any

import numpy as np
import pytest

from kvtier.client import InvalidArgumentError
from kvtier.client.mapped.buffers import address_of, read_payloads, read_targets

BF16, FLOAT = 4, 2


class Tensor:
    """What has DLPack and no buffer protocol, such as a tensor of torch.

    Args:
        values: What it holds.
        changes: Fields of DLTensor to set, by their place in 32-bit words or bytes.
    """

    def __init__(self, values: "np.ndarray[Any, Any]", **changes: int) -> None:
        self.values = values
        self._changes = changes

    def __dlpack__(self) -> object:
        capsule = self.values.__dlpack__()
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        start = get(capsule, b"dltensor")
        for name, value in self._changes.items():
            kind, offset = {
                "device": (ctypes.c_int32, 8),
                "code": (ctypes.c_uint8, 20),
                "bits": (ctypes.c_uint8, 21),
            }[name]
            kind.from_address(start + offset).value = value
        return capsule


@pytest.mark.parametrize(
    "payload",
    [
        b"eight by",
        bytearray(b"eight by"),
        memoryview(b"eight by"),
        array("H", b"eight by"),
        np.frombuffer(b"eight by", np.float32),
        Tensor(np.frombuffer(bytearray(b"eight by"), np.uint8)),
        Tensor(np.frombuffer(bytearray(b"eight by"), np.uint16).reshape(2, 1, 2), code=BF16),
    ],
    ids=lambda payload: type(payload).__name__,
)
def test_bytes_are_read_where_they_are(payload: Any) -> None:
    """From buffers, read-only ones too, and from tensors of types that buffers do not know."""
    (found,) = read_payloads("payloads", [payload], [8])

    address = address_of(found.view)

    assert bytes(found.view) == b"eight by" == ctypes.string_at(address, 8)


def test_a_tensor_stays_as_long_as_its_bytes_are_used() -> None:
    """Also when the caller drops it."""
    tensor: Tensor | None = Tensor(np.full(1 << 20, 7, np.uint8))
    assert tensor is not None
    (found,) = read_payloads("payloads", [tensor], [1 << 20])
    tensor = None
    np.full(1 << 20, 9, np.uint8)

    assert bytes(found.view[-4:]) == b"\7\7\7\7"


def test_targets_are_written_where_they_are() -> None:
    """Buffers and tensors alike."""
    buffer, values = bytearray(4), np.zeros(4, np.uint8)

    for found in read_targets("into", [buffer, Tensor(values)], [4, 4]):
        found.view[:] = b"abcd"

    assert (bytes(buffer), values.tobytes()) == (b"abcd", b"abcd")


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"seven b", r"payloads\[0\] has 7 bytes; the block has 8"),
        (Tensor(np.zeros(3, np.uint8)), r"payloads\[0\] has 3 bytes; the block has 8"),
        (Tensor(np.zeros(0, np.uint8)), r"payloads\[0\] has 0 bytes; the block has 8"),
        (np.zeros((4, 4), np.uint8)[:, :2], r"payloads\[0\] must be a contiguous buffer"),
        (Tensor(np.zeros((4, 4), np.uint8)[:, :2]), r"payloads\[0\] is not contiguous"),
        (Tensor(np.zeros((2, 4), np.uint8).T), r"payloads\[0\] is not contiguous"),
        (Tensor(np.zeros(8, np.uint8), device=2), r"payloads\[0\] is on a device of DLPack type 2"),
        (Tensor(np.zeros(8, np.uint8), bits=4), r"payloads\[0\] has elements of 4 bits"),
        ("text", r"payloads\[0\] must be a contiguous buffer"),
        (None, r"payloads\[0\] must be a contiguous buffer"),
    ],
)
def test_what_is_no_whole_block_is_refused_by_name(payload: Any, message: str) -> None:
    """With what was wrong with it."""
    with pytest.raises(InvalidArgumentError, match=message):
        read_payloads("payloads", [payload], [8])


def test_a_tensor_that_cannot_be_exported_is_refused_with_its_reason() -> None:
    """Such as one that needs its gradient."""

    class Stubborn:
        def __dlpack__(self) -> object:
            raise RuntimeError("detach it first")

    with pytest.raises(InvalidArgumentError, match=r"Stubborn that cannot.*detach it first"):
        read_payloads("payloads", [Stubborn()], [8])


def test_other_numbers_of_payloads_and_read_only_targets_are_refused() -> None:
    """Before anything is copied."""
    with pytest.raises(InvalidArgumentError, match="payloads has 1 entries; there are 2 blocks"):
        read_payloads("payloads", [b"x"], [1, 1])
    with pytest.raises(InvalidArgumentError, match=r"into\[1\] is read-only"):
        read_targets("into", [bytearray(1), b"x"], [1, 1])
