"""The names of the metrics in an expression are found, and nothing else is taken for one."""

import pytest

from tests.monitoring.metrics import asked_for, unknown


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("absent(kvtier_build_info)", {"kvtier_build_info"}),
        ('rate(a_total{x="b", y=~"c|d"}[5m]) > 0', {"a_total"}),
        ("sum by (job, instance) (a) / on (job) group_left (node_id) b", {"a", "b"}),
        ("a offset 15m unless b and c == 1 or d > bool 2e3", {"a", "b", "c", "d"}),
        ('a{x="{y"} + b', {"a", "b"}),
        ("time() - job:recorded:rate5m", {"job:recorded:rate5m"}),
    ],
)
def test_names_are_found(expression: str, names: set[str]) -> None:
    """Functions, labels, words, numbers and times are no metrics."""
    assert asked_for(expression) == names


def test_a_histogram_is_known_by_its_own_name() -> None:
    """Its buckets, sum and count belong to it; what else looks like it does not."""
    asked = "lag_seconds_bucket + lag_seconds_sum + lag_seconds_count + lag_second_bucket"

    assert unknown(asked, {"lag_seconds"}) == {"lag_second_bucket"}
