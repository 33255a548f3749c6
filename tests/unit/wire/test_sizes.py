"""Sizes: one rule for flags, environment, files and the chart."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtier.wire.sizes import MAX_SIZE, exact_size, format_size, parse_size

GIB = 1 << 30


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("536870912", 536870912),
        ("512MB", 512_000_000),
        ("512MiB", 512 << 20),
        ("512 MB", 512_000_000),
        ("512 mib", 512 << 20),
        ("0.5GiB", GIB // 2),
        ("1.5 KB", 1500),
        ("64 B", 64),
        ("7TB", 7 * 10**12),
        ("7TiB", 7 << 40),
        (" 10GiB\n", 10 * GIB),
        ("1e9", 10**9),
        ("1.073741824e+09", GIB),
        (str(MAX_SIZE), MAX_SIZE),
        (10**9, 10**9),
        (1e9, 10**9),
    ],
)
def test_a_size_is_read_with_its_unit(text: str | float, size: int) -> None:
    """Decimal and binary units, any case, one optional space; exponents as YAML and Helm write."""
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "512m",
        "512M",
        "512Mi",
        "512MBx",
        "512  MB",
        "MB",
        "MiB 5",
        "1,5 GiB",
        "1_000",
        "0x10",
        "\N{ARABIC-INDIC DIGIT FIVE}",
        "½ GiB",
        "1e999999999",
        "9" * 5000,
        "inf",
        "nan",
        "10GiB 5MiB",
        float("inf"),
        float("nan"),
        True,
    ],
)
def test_what_is_no_size_is_refused_with_its_text_and_what_to_write(value: str | float) -> None:
    """A unit of one letter is refused too: it means different things to different programs."""
    with pytest.raises(ValueError, match="such as 64GiB") as error:
        parse_size(value)

    assert str(error.value).startswith(repr(value)[:80])


@pytest.mark.parametrize("value", ["-1", "-512MB", -1, -1.0])
def test_a_negative_size_is_refused_as_negative(value: str | float) -> None:
    """The message says that a size is 0 or more."""
    with pytest.raises(ValueError, match=rf"^{re.escape(repr(value))} is negative"):
        parse_size(value)


@pytest.mark.parametrize("value", ["0.3KiB", "0.5", 0.5])
def test_a_fraction_of_a_byte_is_refused(value: str | float) -> None:
    """A size is a whole number of bytes."""
    with pytest.raises(ValueError, match="not a whole number of bytes"):
        parse_size(value)


@pytest.mark.parametrize("value", [str(MAX_SIZE + 1), "8388608TiB", 1e30])
def test_a_size_beyond_63_bits_is_refused(value: str | float) -> None:
    """No size that a file or a message cannot carry gets through."""
    with pytest.raises(ValueError, match="too large"):
        parse_size(value)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (64, "64 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1500, "1.46 KiB"),
        (1023 << 10, "1023 KiB"),
        ((1 << 20) - 1, "1 MiB"),
        (102_399, "100 KiB"),
        (GIB, "1 GiB"),
        (3 * GIB // 2, "1.5 GiB"),
        (5000 << 40, "5000 TiB"),
    ],
)
def test_a_size_is_shown_in_binary_units_with_three_digits(size: int, text: str) -> None:
    """A value that rounds up to 1024 of a unit is shown as 1 of the next."""
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0"),
        (1000, "1000"),
        (1024, "1KiB"),
        (1536, "1536"),
        (3 << 39, "1536GiB"),
        (5 << 50, "5120TiB"),
    ],
)
def test_an_exact_size_has_the_largest_unit_without_a_fraction(size: int, text: str) -> None:
    """For files that people read and change."""
    assert exact_size(size) == text


@given(st.integers(0, MAX_SIZE))
def test_an_exact_size_is_read_back(size: int) -> None:
    """No byte is lost on the way."""
    assert parse_size(exact_size(size)) == size


@given(st.integers(0, MAX_SIZE))
def test_a_shown_size_is_right_to_three_digits(size: int) -> None:
    """What is shown is off by no more than half of its third digit, at any size."""
    number, unit = format_size(size).split()

    shown = Fraction(number) * parse_size(f"1 {unit}")

    assert abs(shown - size) <= Fraction(size, 200)
