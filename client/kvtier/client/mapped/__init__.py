"""Storing and loading through a tier's own memory, on the same host."""
