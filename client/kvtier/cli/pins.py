"""Pins on the command line: a lease's id and generation in hexadecimal, parted by a colon."""

from typing import TYPE_CHECKING

import click

from kvtier.cli.output.names import without_kind

if TYPE_CHECKING:
    from kvtier.v1.block_pb2 import Lease

DEFAULT_OWNER = "kvtier-cli"


def show_pin(lease: "Lease") -> str:
    """Return a pin as `kvtier unpin` takes it."""
    return f"{lease.id.hex()}:{lease.generation:016x}"


def read_pin(text: str) -> "Lease":
    """Return the pin that `show_pin` showed, alone or as "pin/PIN".

    Raises:
        click.BadParameter: When the text is none.
    """
    from kvtier.v1.block_pb2 import Lease  # noqa: PLC0415 - keeps protobuf out of `--help`

    lease_id, _, generation = without_kind("pin", text).partition(":")
    try:
        return Lease(id=bytes.fromhex(lease_id), generation=int(generation, 16))
    except ValueError:
        raise click.BadParameter(
            f"{text[:80]!r} is no pin; write it as kvtier pin showed it, ID:GENERATION"
        ) from None
