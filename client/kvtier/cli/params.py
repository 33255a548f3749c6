"""Values on the command line that click does not know."""

import click

from kvtier.wire.sizes import parse_size


def size(text: str | int) -> int:
    """Return the bytes of a size such as "65536", "64KiB" or "0.5 GiB"."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
