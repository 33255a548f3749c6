"""A small load on a node that leaves nothing behind."""
