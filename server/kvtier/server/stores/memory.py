"""How much memory a process may still take."""

from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


def available_memory(meminfo: Path = _MEMINFO, container_limit: Path = _CONTAINER_LIMIT) -> int:
    """Return the bytes that this machine, and its container, could give to a process now.

    The kernel promises more memory than there is and ends processes that use it; asking first
    turns that into an error with numbers. Where nothing is known, the answer is as large as can
    be.
    """
    available = (line for line in _lines(meminfo) if line.startswith("MemAvailable:"))
    amounts = [1 << 63, *(int(line.split()[1]) * 1024 for line in available)]
    amounts += [int(line) for line in _lines(container_limit) if line.isdigit()]
    return min(amounts)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
