"""Blocks that move between the tiers of a node: down, up, and through."""
