"""Other nodes that this one may pull blocks from."""
