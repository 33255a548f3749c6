"""A server as a process: its loop, its memory, its signals, and its settings on request."""
