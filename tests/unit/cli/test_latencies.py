"""How long calls took, as ping and bench tell it."""

import pytest

from kvtier.cli.latencies import Latencies, milliseconds


def record(*seconds: float) -> dict[str, float | None]:
    latencies = Latencies()
    for each in seconds:
        latencies.add(each)
    return latencies.record()


def test_percentiles_are_times_that_were_measured() -> None:
    """The nearest above the wished part, in milliseconds, whatever the order."""
    times = [number / 1000 for number in range(200, 0, -1)]

    assert record(*times) == {"min_ms": 1, "p50_ms": 100, "p99_ms": 198, "max_ms": 200}


def test_one_time_is_all_of_them() -> None:
    """No percentile is beyond what there is."""
    assert set(record(0.25).values()) == {250}


def test_without_a_call_there_are_none() -> None:
    """A table has empty cells there."""
    assert set(record().values()) == {None}
    assert milliseconds(None) == ""


@pytest.mark.parametrize(
    ("value", "text"), [(0.1234, "0.123"), (1.0, "1.00"), (12.345, "12.3"), (1234.5, "1234")]
)
def test_milliseconds_have_three_digits(value: float, text: str) -> None:
    """Whole ones from a hundred on."""
    assert milliseconds(value) == text
