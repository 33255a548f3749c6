"""Storing on the primary, and from there on the secondaries."""
