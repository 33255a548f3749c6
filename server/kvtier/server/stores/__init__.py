"""Where a tier's bytes are: one flat arena in shared memory or on a GPU."""
