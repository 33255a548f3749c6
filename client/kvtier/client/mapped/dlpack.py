"""Reading a DLPack capsule, for tensors whose types Python's buffers do not know (bf16, fp8)."""

import ctypes
from math import prod
from typing import Protocol, runtime_checkable

from kvtier.client.arguments import bad_argument

# kDLCPU, and kDLCUDAHost: pinned memory, which the CPU reads like any other.
_READABLE_DEVICES = {1, 3}
_NAME = b"dltensor"


@runtime_checkable
class DLPackTensor(Protocol):
    """A tensor that other libraries can look into."""

    def __dlpack__(self) -> object:
        """Return a capsule named `dltensor`."""


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("number", ctypes.c_int32)]


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    """DLTensor, which every DLManagedTensor begins with."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("dimensions", ctypes.c_int32),
        ("type", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def view_tensor(name: str, tensor: DLPackTensor) -> tuple[memoryview, object]:
    """Return the bytes of a tensor in host memory without a copy, and what keeps them there.

    Raises:
        InvalidArgumentError: When it is not contiguous, not in host memory, or cannot be exported.
    """
    try:
        capsule = tensor.__dlpack__()
        pointer = _get_pointer(capsule, _NAME)
    except Exception as error:  # noqa: BLE001 - each library has its own
        raise bad_argument(
            f"{name} is a {type(tensor).__name__} that cannot be read through DLPack: {error}"
        ) from None
    parts = ctypes.cast(pointer, ctypes.POINTER(_Tensor)).contents
    if parts.device.type not in _READABLE_DEVICES:
        raise bad_argument(
            f"{name} is on a device of DLPack type {parts.device.type}, not in host memory: copy "
            "it to the CPU first"
        )
    size = _contiguous_bytes(name, parts)
    if not size:
        return memoryview(b""), capsule
    whole = (ctypes.c_char * size).from_address(parts.data + parts.byte_offset)
    return memoryview(whole).cast("B"), capsule


def _contiguous_bytes(name: str, parts: _Tensor) -> int:
    shape = parts.shape[: parts.dimensions]
    bits = parts.type.bits * parts.type.lanes
    if bits % 8:
        raise bad_argument(f"{name} has elements of {bits} bits; they must be whole bytes")
    size = prod(int(extent) for extent in shape) * int(bits) // 8
    expected = 1
    for i in reversed(range(parts.dimensions) if size and parts.strides else ()):
        if shape[i] != 1 and parts.strides[i] != expected:
            raise bad_argument(f"{name} is not contiguous: make it so first, such as .contiguous()")
        expected *= shape[i]
    return size
