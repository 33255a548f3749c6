"""Python's garbage collector, kept from walking what lives as long as the process."""

import gc

# A collection visits what survived since the last older one, a microsecond an object: young times
# middle bounds the common stall (5 ms). A full one visits every group and lease of a node, 60 ms at
# a million blocks, to find cycles that outlived many others, which are few.
_YOUNG, _MIDDLE, _FULL = 1_000, 5, 2_000


def spare_long_lived() -> None:
    """Leave out of every collection what exists now, and make full collections rare."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _FULL)
