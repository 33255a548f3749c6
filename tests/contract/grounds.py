"""Where a tier that lasts keeps its blocks, and what a test does to these behind the node."""

from pathlib import Path
from typing import Any, Protocol

from tests.s3.server import REGION
from tests.s3.shelves import Place

from .support import ANY_TIER

IO_THREADS = 4


class Ground(Protocol):
    """A directory, or a prefix of a bucket, that is one tier's."""

    def tier(self, name: str = ANY_TIER, **fields: Any) -> dict[str, object]:
        """The configuration of the tier, with plenty of room."""

    def names(self) -> set[str]:
        """The names of the blocks that lie there."""

    def read(self, name: str) -> bytes:
        """The bytes that lie under a name."""

    def write(self, name: str, data: bytes) -> None:
        """Put other bytes there."""

    def plant(self, path: str, data: bytes) -> None:
        """Put bytes under any path."""

    def take(self, path: str) -> None:
        """Take away what lies under any path."""

    def remove(self, name: str) -> None:
        """Take the block away."""

    def written(self, name: str) -> object:
        """What tells one write of a name from another."""

    def paths(self) -> set[str]:
        """Everything that lies there, by its path."""

    def around(self) -> dict[str, object]:
        """What lies beside it, which is nobody's of the tier."""


class Directory:
    """A directory of files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def tier(self, name: str = ANY_TIER, **fields: Any) -> dict[str, object]:
        """See `Ground.tier`."""
        return {
            "name": name,
            "medium": "fs",
            "capacity": "64MiB",
            "directory": str(self.path),
            "io_threads": IO_THREADS,
            "scrub_rate": 0,
            **fields,
        }

    def names(self) -> set[str]:
        """See `Ground.names`."""
        return {path.name for path in self.path.glob("blocks/*/*")}

    def read(self, name: str) -> bytes:
        """See `Ground.read`."""
        return self._path(name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        """See `Ground.write`."""
        self._path(name).write_bytes(data)

    def plant(self, path: str, data: bytes) -> None:
        """See `Ground.plant`."""
        place = self.path / path
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(data)

    def take(self, path: str) -> None:
        """See `Ground.take`."""
        (self.path / path).unlink()

    def remove(self, name: str) -> None:
        """See `Ground.remove`."""
        self._path(name).unlink()

    def written(self, name: str) -> object:
        """See `Ground.written`."""
        found = self._path(name).stat()
        return found.st_ino, found.st_mtime_ns

    def paths(self) -> set[str]:
        """See `Ground.paths`."""
        found = self.path.rglob("*")
        return {str(path.relative_to(self.path)) for path in found if not path.is_dir()}

    def around(self) -> dict[str, object]:
        """See `Ground.around`."""
        others = [path for path in self.path.parent.rglob("*") if not self._is_mine(path)]
        return {str(path): path.is_dir() or path.read_bytes() for path in others}

    def _is_mine(self, path: Path) -> bool:
        return path.is_relative_to(self.path)

    def _path(self, name: str) -> Path:
        return self.path / "blocks" / name[:2] / name


class Prefix:
    """A prefix of a bucket.

    Args:
        place: Where it is.
        endpoint: The server's URL for the node; the place's where there is none.
    """

    def __init__(self, place: Place, endpoint: str = "") -> None:
        self.place = place
        self._endpoint = endpoint or place.endpoint

    def tier(self, name: str = ANY_TIER, **fields: Any) -> dict[str, object]:
        """See `Ground.tier`."""
        return {
            "name": name,
            "medium": "obj",
            "capacity": "64MiB",
            "url": self.place.url,
            "endpoint": self._endpoint,
            "region": REGION,
            "io_threads": IO_THREADS,
            "scrub_rate": 0,
            **fields,
        }

    def names(self) -> set[str]:
        """See `Ground.names`."""
        keys = self.place.keys()
        return {key.rpartition("/")[2] for key in keys if key.startswith("blocks/")}

    def read(self, name: str) -> bytes:
        """See `Ground.read`."""
        return self.place.read(_key(name))

    def write(self, name: str, data: bytes) -> None:
        """See `Ground.write`."""
        self.place.write(_key(name), data)

    def plant(self, path: str, data: bytes) -> None:
        """See `Ground.plant`."""
        self.place.write(path, data)

    def take(self, path: str) -> None:
        """See `Ground.take`."""
        self.place.remove(path)

    def remove(self, name: str) -> None:
        """See `Ground.remove`."""
        self.place.remove(_key(name))

    def written(self, name: str) -> object:
        """See `Ground.written`."""
        return self.place.written(_key(name))

    def paths(self) -> set[str]:
        """See `Ground.paths`."""
        return set(self.place.keys())

    def around(self) -> dict[str, object]:
        """See `Ground.around`."""
        return self.place.others()


def name_of(ground: Ground, data: bytes) -> str:
    """Return the name under which the block with some bytes lies."""
    (name,) = [name for name in ground.names() if ground.read(name).endswith(data)]
    return name


def _key(name: str) -> str:
    return f"blocks/{name[:2]}/{name}"
