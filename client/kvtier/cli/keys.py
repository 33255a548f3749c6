"""Block keys on the command line: hashes in hexadecimal, namespace, group and scope."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.output.names import without_kind
from kvtier.wire.namespaces import MAX_HASH_WIDTH, MAX_SCOPE_BYTES, MIN_HASH_WIDTH

F = TypeVar("F", bound=Callable[..., Any])


def hex_bytes(what: str, least: int, most: int) -> Callable[[str | bytes], bytes]:
    """Return a type of option: bytes in hexadecimal, of a length within bounds."""

    def convert(value: str | bytes) -> bytes:
        if isinstance(value, bytes):
            return value
        try:
            return parse_hex(value, least, most)
        except ValueError as error:
            raise click.BadParameter(f"{what} {error}") from None

    return convert


def hash_bytes(value: str | bytes) -> bytes:
    """Return the hash that an option or argument names, alone or as "block/HASH"."""
    text = without_kind("block", value) if isinstance(value, str) else value
    return hex_bytes("hash", MIN_HASH_WIDTH, MAX_HASH_WIDTH)(text)


def parse_hex(text: str, least: int = MIN_HASH_WIDTH, most: int = MAX_HASH_WIDTH) -> bytes:
    """Return the bytes of a hexadecimal text.

    Raises:
        ValueError: When it is none, or has fewer or more bytes than allowed.
    """
    shown = text if len(text) <= 40 else f"{text[:40]}…"
    try:
        value = bytes.fromhex(text)
    except ValueError:
        raise ValueError(f"{shown!r} is not hexadecimal") from None
    if not least <= len(value) <= most:
        raise ValueError(f"{shown!r} has {len(value)} bytes; {least} to {most} are expected")
    return value


class Keys(NamedTuple):
    """The blocks that a command names.

    Attributes:
        namespace: The namespace's name.
        group: The KV-cache group.
        scope: The scope, empty for the common one.
        hashes: The hashes, in order.
    """

    namespace: str
    group: int
    scope: bytes
    hashes: tuple[bytes, ...]

    def packed(self, width: int) -> bytes:
        """Return the hashes one after the other.

        Raises:
            CommandError: When one has not the namespace's width.
        """
        for value in self.hashes:
            if len(value) != width:
                what = f"hash {value.hex()[:40]} has {len(value)} bytes"
                todo = f"hashes of namespace {self.namespace!r} have {width}"
                raise CommandError("kvtier", what, todo, code=ExitCode.USAGE)
        return b"".join(self.hashes)


def place_options(command: F) -> F:
    """Add --namespace, --group and --scope to a command."""
    for option in (
        click.option(
            "--scope",
            type=hex_bytes("scope", 0, MAX_SCOPE_BYTES),
            default=b"",
            metavar="HEX",
            help="The scope (adapter, tenant, salt); none by default.",
        ),
        click.option(
            "--group",
            type=click.IntRange(0, 63),
            default=0,
            show_default=True,
            help="The KV-cache group.",
        ),
        click.option("-n", "--namespace", required=True, help="The namespace's name."),
    ):
        command = option(command)
    return command


def hash_arguments(command: F) -> F:
    """Add hashes as arguments, and --file to read them from."""
    for option in (
        click.option(
            "--file",
            "file",
            type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
            help="Read the hashes from a file, or from stdin with '-'; white space parts them.",
        ),
        click.argument("hashes", nargs=-1, type=hash_bytes),
    ):
        command = option(command)
    return command


def read_hashes(arguments: Sequence[bytes], file: Path | None) -> tuple[bytes, ...]:
    """Return the hashes given as arguments, then those in a file.

    Raises:
        click.UsageError: When there are none, or the file holds something else.
    """
    hashes = list(arguments)
    if file is not None:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
        try:
            hashes += [parse_hex(without_kind("block", word)) for word in text.split()]
        except ValueError as error:
            raise click.UsageError(f"{file}: {error}") from error
    if not hashes:
        raise click.UsageError("no hash given; name them as arguments or with --file")
    return tuple(hashes)
