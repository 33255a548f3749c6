"""The services of a node, one file each."""
