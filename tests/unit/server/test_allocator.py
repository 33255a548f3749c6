"""The C library is told to keep the memory of messages."""

import subprocess
import sys

import pytest

from kvtier.server.process import allocator

# What a message costs in page faults, with and without: in a process of its own, for it stays so.
_COUNT_FAULTS = """
import resource, sys
from kvtier.server.process.allocator import keep_memory_of_messages
told = keep_memory_of_messages() if sys.argv[1] == "keep" else None
# Two at a time, as a message and gRPC's copy of it.
def move():
    one = bytes(2 << 20)
    two = bytearray(one)
for _ in range(20):
    move()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    move()
print(told, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> tuple[str, int]:
    """What the call answered, and the page faults of a hundred messages after it."""
    done = subprocess.run(
        [sys.executable, "-c", _COUNT_FAULTS, how],
        capture_output=True,
        text=True,
        check=True,
        env={},
    )
    told, count = done.stdout.split()
    return told, int(count)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_the_memory_of_messages_is_kept() -> None:
    """Messages that come and go cost no page faults once there was one."""
    told, count = faults("keep")

    assert told == "True"
    assert count < 100
    assert faults("leave")[1] > 10 * max(count, 1)


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"])
def test_what_the_operator_set_is_left_alone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The environment wins."""
    monkeypatch.setenv(name, "1048576")

    assert not allocator.keep_memory_of_messages()


def test_another_c_library_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no such call, nothing is done."""
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())

    assert not allocator.keep_memory_of_messages()
