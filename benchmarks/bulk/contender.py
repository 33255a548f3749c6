"""What moves blocks in this benchmark, as the measurements see it.

To add a contender, write a module with

* `NAME`, as the tables have it;
* `missing()`, which returns what it lacks on this machine and how to get it, or "";
* `open()`, which starts its server process and returns a `Contender` that is connected to it.

and name the module in the list of a measurement, such as `hosts.CONTENDERS`. The module runs in a
client process of its own (`client.py`), which also times it and reads the CPU of the servers that
`servers` tells. `child.py` starts a server and ends it.

A contender moves blocks of any size. It chooses its own keys, keeps the last batch readable, and
may forget older ones. What it returns from `get` must be in this process's memory, so that the
next reader needs no further copy. Nothing checks checksums for it; where it does that itself, as a
node does, that is part of its figure.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from typing_extensions import Buffer

# The largest batch that is put, in bytes: servers make room for two.
MOST_BYTES = 64 << 20


class Contender(Protocol):
    """A client that is connected to its own server."""

    @property
    def servers(self) -> Sequence[int]:
        """The process ids of its server processes."""

    def put(self, blocks: Sequence[memoryview]) -> None:
        """Store one batch of blocks; returns when the server has them all, and would give them."""

    def get(self) -> "Sequence[Buffer]":
        """Return the blocks of the last batch, in their order."""

    def close(self) -> None:
        """Disconnect and end the servers."""


class ContenderModule(Protocol):
    """A module that has a contender."""

    NAME: str

    def missing(self) -> str:
        """Return what it lacks on this machine and how to get it; empty when it can run."""

    def open(self) -> Contender:
        """Start its server and connect."""


def module(name: str) -> ContenderModule:
    """Return the module of this package that has a contender."""
    return cast("ContenderModule", import_module(f"benchmarks.bulk.{name}"))
