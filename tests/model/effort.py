"""How hard the tests that look for faults with random steps shall try."""

import os

_EFFORT = int(os.environ.get("KVTIER_TEST_EFFORT", "1"))


def examples(count: int) -> int:
    """Return how many random examples to try: so many, times KVTIER_TEST_EFFORT (1 by default)."""
    return count * _EFFORT


def seconds(limit: int) -> int:
    """Return the time that one test may take to try all its examples."""
    return limit * _EFFORT
