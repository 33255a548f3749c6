"""Where log lines go, and what they look like."""

import logging
import sys
import time
from collections.abc import Callable

import structlog

from kvtier.server.observing.redaction import hide_secret_fields, without_secrets

# Written by gRPC with the whole of a caller's metadata that is no text: its token, it may be.
_WITH_METADATA = "Invalid encoding on"
_LINES, _SECONDS = 20, 10.0
_LONGEST = 2000


class Forwarding(logging.Handler):
    """Hands on what libraries say by the standard library's logging.

    Peers can make them talk, so that each logger has few lines in a time, of moderate length.

    Args:
        now: The monotonic clock, in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        # The begin of its time, and the lines in it, by logger.
        self._said: dict[str, tuple[float, int]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line of it as all others are."""
        now = self._now()
        begin, count = self._said.get(record.name, (now, 0))
        untold = {}
        if now - begin >= _SECONDS:
            untold = {"untold": count - _LINES} if count > _LINES else {}
            begin, count = now, 0
        self._said[record.name] = begin, count + 1
        if count >= _LINES:
            return
        text, trace = record.getMessage(), record.exc_info
        if text.startswith(_WITH_METADATA):
            text, trace = "metadata of a call is no text", None
        structlog.get_logger().log(
            record.levelno, text[:_LONGEST], logger=record.name, exc_info=trace, **untold
        )


_FORWARDING = Forwarding()
LIBRARIES = ("asyncio", "concurrent.futures", "grpc", "opentelemetry")


def forward_logs(*loggers: str) -> None:
    """Write what these loggers of the standard library say as all other lines."""
    for name in loggers:
        logging.getLogger(name).addHandler(_FORWARDING)


def configure_logs(level: str) -> None:
    """Write log lines as JSON to standard error, from a level on.

    What libraries say by the standard library's logging is written as all else is.

    Called once, before any channel exists: gRPC objects that are finalised while another thread
    configures logging can deadlock (grpc/grpc#43421).

    Args:
        level: The lowest level shown, such as "info".
    """
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            hide_secret_fields,
            structlog.processors.JSONRenderer(without_secrets),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )
    forward_logs(*LIBRARIES)
