"""Whose call is under way, for what counts by callers and is far from the call itself."""

from contextvars import ContextVar

# Empty in what the node does by itself. Every call has a context of its own.
caller: ContextVar[str] = ContextVar("caller", default="")
