"""The source of the copy kernel, run thread by thread on the processor."""

import ctypes
import shutil
import subprocess
from random import Random

import pytest

from kvtier.server.stores.cuda_lane import KERNEL

SHIM = """
#include <cstdint>
#define __global__
struct uint4 { uint32_t x, y, z, w; };
struct place { unsigned x, y; };
static place blockIdx, blockDim, gridDim, threadIdx;
"""
LOOP = """
extern "C" void run(unsigned n, unsigned groups, unsigned threads,
                    const unsigned char* source, unsigned char* target, const long long* rows) {
    gridDim = {n, groups}; blockDim = {threads, 1};
    for (unsigned b = 0; b < n; b++) for (unsigned g = 0; g < groups; g++)
        for (unsigned t = 0; t < threads; t++) {
            blockIdx = {b, g}; threadIdx = {t, 0};
            kvtier_copy_pieces(source, target, rows);
        }
}
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The kernel, compiled for the processor."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler to run the kernel's source without a GPU")
    folder = tmp_path_factory.mktemp("kernel")
    source, library = folder / "kernel.cpp", folder / "kernel.so"
    source.write_text(SHIM + KERNEL + LOOP)
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", source, "-o", library], check=True)
    return ctypes.CDLL(str(library))


@pytest.mark.parametrize(("groups", "threads"), [(1, 4), (3, 32), (32, 256)])
def test_every_byte_of_a_piece_is_copied_and_no_other(
    kernel: ctypes.CDLL, groups: int, threads: int
) -> None:
    """Whatever its place and length, and however many threads share the work."""
    random = Random(groups)
    lengths = [*range(40), 100, 1000, 4097]
    source = (ctypes.c_ubyte * (len(lengths) * 5000)).from_buffer_copy(
        random.randbytes(len(lengths) * 5000)
    )
    target = (ctypes.c_ubyte * len(source))()
    apart = ctypes.addressof(source) - ctypes.addressof(target)
    rows, expected = [], bytearray(len(source))
    for place, length in enumerate(lengths):
        start = place * 5000 + random.randrange(64)
        end = (len(lengths) - 1 - place) * 5000
        end += (apart + start - end) % 16
        rows += [start, end, length]
        expected[end : end + length] = bytes(source)[start : start + length]

    table = (ctypes.c_longlong * len(rows))(*rows)
    kernel.run(len(lengths), groups, threads, source, target, table)

    assert bytes(target) == expected
