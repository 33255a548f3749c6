"""The bytes of what callers give: anything with the buffer protocol, or with DLPack."""

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, Union

from kvtier.client.arguments import bad_argument, view_bytes
from kvtier.client.mapped.dlpack import DLPackTensor, view_tensor

if TYPE_CHECKING:
    from typing_extensions import Buffer

Payload: TypeAlias = Union["Buffer", DLPackTensor]


class Bytes(NamedTuple):
    """Bytes in this process.

    Attributes:
        view: The bytes.
        keep: What must live as long as they are used.
    """

    view: memoryview
    keep: object = None


class _PyBuffer(ctypes.Structure):
    """Py_buffer of Python's stable ABI."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_PyBuffer)]


def address_of(view: memoryview) -> int:
    """Return where the bytes of a contiguous view begin, also of a read-only one."""
    buffer = _PyBuffer()
    _get_buffer(view, ctypes.byref(buffer), 0)
    try:
        return buffer.buf or 0
    finally:
        _release_buffer(ctypes.byref(buffer))


def read_payloads(name: str, payloads: Sequence[Payload], sizes: Sequence[int]) -> list[Bytes]:
    """Return the bytes of each payload, when each has its block's size.

    Raises:
        InvalidArgumentError: When there are more or fewer payloads than blocks, or one of them is
            not contiguous, not in host memory, or of another size.
    """
    if len(payloads) != len(sizes):
        raise bad_argument(f"{name} has {len(payloads)} entries; there are {len(sizes)} blocks")
    found = []
    for i, (payload, size) in enumerate(zip(payloads, sizes, strict=True)):
        one = _bytes_of(f"{name}[{i}]", payload)
        if len(one.view) != size:
            raise bad_argument(f"{name}[{i}] has {len(one.view)} bytes; the block has {size}")
        found.append(one)
    return found


def read_targets(name: str, targets: Sequence[Payload], sizes: Sequence[int]) -> list[Bytes]:
    """Return the bytes to write each block into.

    Raises:
        InvalidArgumentError: As `read_payloads` does, and when one of them is read-only.
    """
    found = read_payloads(name, targets, sizes)
    for i, one in enumerate(found):
        if one.view.readonly:
            raise bad_argument(f"{name}[{i}] is read-only; give a buffer that can be written")
    return found


def _bytes_of(name: str, payload: Payload) -> Bytes:
    try:
        memoryview(payload)  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        # Arrays of types that buffers do not know have the protocol and refuse it.
        if isinstance(payload, DLPackTensor):
            return Bytes(*view_tensor(name, payload))
    return Bytes(view_bytes(name, payload))  # type: ignore[arg-type]
