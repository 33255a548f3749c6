"""Comparing what events tell with what nodes list."""
