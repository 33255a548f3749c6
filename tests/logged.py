"""Logging as a node does, for as long as a test lasts."""

import io
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import structlog

from kvtier.server.observing import logs


@contextmanager
def logged() -> Iterator[Callable[[], str]]:
    """Log as a node does; give what was written so far. Afterwards all is as it was before."""
    stream, before = io.StringIO(), structlog.get_config()
    handlers = {name: list(logging.getLogger(name).handlers) for name in logs.LIBRARIES}
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            logs.configure_logs("info")
            yield stream.getvalue
    finally:
        structlog.configure(**before)
        for name, kept in handlers.items():
            logging.getLogger(name).handlers[:] = kept
