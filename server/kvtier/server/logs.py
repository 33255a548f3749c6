"""Where log lines go, and what they look like."""

import logging
import sys

import structlog


def configure_logs(level: str) -> None:
    """Write log lines as JSON to standard error, from a level on.

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
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )
