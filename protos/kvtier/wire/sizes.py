"""Sizes as people write them: one rule for flags, environment, files and the chart."""

import re
from fractions import Fraction

MAX_SIZE = (1 << 63) - 1

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
_DECIMAL = ("B", "KB", "MB", "GB", "TB")
_UNITS = {
    "": 1,
    **{unit.lower(): 1000**power for power, unit in enumerate(_DECIMAL)},
    **{unit.lower(): 1024**power for power, unit in enumerate(_BINARY)},
}
_SIZE = re.compile(
    r"(?P<number>[0-9]{1,20}(?:\.[0-9]{1,20})?(?:e\+?[0-9]{1,2})?) ?(?P<unit>[a-z]*)", re.IGNORECASE
)
_HINT = (
    "write bytes, or a number with B, KB, MB, GB, TB (powers of 1000) "
    "or KiB, MiB, GiB, TiB (powers of 1024), such as 64GiB"
)


def parse_size(value: str | float) -> int:
    """Return a size in bytes.

    Text is a decimal number and an optional unit, in any case and with at most one space between
    them: `536870912`, `512 MB`, `0.5gib`. An exponent (`1e9`) is accepted, since YAML and Helm
    write large numbers so. Fractions are accepted where they come to whole bytes. `K`, `M`, `G`
    and `T` alone are refused: they mean different things to different programs.

    Args:
        value: The text, or a whole number of bytes.

    Raises:
        ValueError: When it is not a size, negative, no whole number of bytes, or above 2^63 - 1;
            the message names the value and what to write.
    """
    text = str(value).strip()
    shown = f"{value!r:.80}"
    match = _SIZE.fullmatch(text)
    unit = _UNITS.get(match["unit"].lower()) if match else None
    if match is None or unit is None or isinstance(value, bool):
        problem = (
            "is negative; a size is 0 or more" if text[:1] == "-" else f"is not a size; {_HINT}"
        )
        raise ValueError(f"{shown} {problem}")
    size = Fraction(match["number"]) * unit
    if size.denominator != 1:
        raise ValueError(f"{shown} is not a whole number of bytes; write one")
    if size > MAX_SIZE:
        raise ValueError(f"{shown} is too large; a size is below 8,388,608 TiB")
    return int(size)


def exact_size(size: int) -> str:
    """Return a size as `parse_size` reads it back, in the largest unit that is exact.

    Args:
        size: Bytes, 0 or more.
    """
    power = 0
    while size and size % 1024 == 0 and power < len(_BINARY) - 1:
        size, power = size // 1024, power + 1
    return f"{size}{_BINARY[power]}" if power else str(size)


def format_size(size: int) -> str:
    """Return a size in binary units with three significant digits, such as `1.46 KiB`.

    Args:
        size: Bytes, 0 or more.
    """
    if size < 1024:
        return f"{size} B"
    scaled, power = float(size), 0
    # What would be rounded up to 1024 of a unit is 1 of the next.
    while scaled >= 1023.5 and power < len(_BINARY) - 1:
        scaled, power = scaled / 1024, power + 1
    digits = f"{scaled:.0f}" if scaled >= 99.95 else f"{scaled:.3g}"
    return f"{digits} {_BINARY[power]}"
