"""What lies where on a shelf, of files or of objects. No part of a path comes from a request."""

import re

from kvtier.server.lasting.record import serial_of

LOCK = "lock"
FORMAT = "FORMAT"
NEW_FORMAT = "FORMAT.new"
FORMAT_LINE = b"kvtier blocks 1\n"
PARTIAL = "partial"
BLOCKS = "blocks"
NAMESPACES = "namespaces"
BLOCK_DIRECTORIES = tuple(f"{BLOCKS}/{number:02x}" for number in range(256))

# A longer description of a namespace is none.
MOST_DESCRIPTION = 1 << 20
_FINGERPRINT = re.compile("[0-9a-f]{64}")


def directory_of(path: str) -> str:
    """Return the directory that a path lies in; that of the root is the root, the empty path."""
    return path.rpartition("/")[0]


def block_directory(name: str) -> str:
    """Return the directory of a block."""
    return f"{BLOCKS}/{name[:2]}"


def block_path(name: str) -> str:
    """Return the path of a block.

    Raises:
        ValueError: When the name is none that `record.make_name` gives.
    """
    if serial_of(name) is None:
        raise ValueError(f"{name!r} is no name of a block")
    return f"{block_directory(name)}/{name}"


def is_fingerprint(text: str) -> bool:
    """Tell whether a text is the fingerprint of a namespace in hexadecimal."""
    return _FINGERPRINT.fullmatch(text) is not None


def namespace_path(fingerprint: str) -> str:
    """Return the path of a namespace's description.

    Raises:
        ValueError: When it is no fingerprint.
    """
    if not is_fingerprint(fingerprint):
        raise ValueError(f"{fingerprint!r} is no fingerprint of a namespace")
    return f"{NAMESPACES}/{fingerprint}"
