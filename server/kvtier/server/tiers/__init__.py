"""A tier: a block store, a block table, a replacement policy and the node's event log."""
