"""Python's garbage collector, kept from walking what lives as long as the process."""

import gc

# A full collection visits every group and lease of a node: 60 ms at a million blocks. What it would
# find are cycles that outlived many young collections, which are few.
_YOUNG, _MIDDLE, _FULL = 10_000, 20, 1_000


def spare_long_lived() -> None:
    """Leave out of every collection what exists now, and make full collections rare."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _FULL)
