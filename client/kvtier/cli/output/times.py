"""Ages and times left, as people say them."""

from datetime import UTC, datetime

_UNITS = (("d", 86400), ("h", 3600), ("m", 60))


def age(timestamp: str | None, now: datetime | None = None) -> str:
    """Return how long ago an RFC 3339 timestamp was, such as "3m"; empty for None."""
    if timestamp is None:
        return ""
    past = datetime.fromisoformat(timestamp)
    return span(((now or datetime.now(UTC)) - past).total_seconds())


def at(timestamp: str) -> str:
    """Return an RFC 3339 timestamp to the second."""
    return datetime.fromisoformat(timestamp).strftime("%Y-%m-%dT%H:%M:%SZ")


def length(duration: str) -> str:
    """Return a duration of proto3 JSON, such as "3.5s", as `span` says it."""
    return span(float(duration.removesuffix("s")))


def span(seconds: float) -> str:
    """Return a length of time in its largest whole unit, such as "45s" or "2h"."""
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{max(seconds, 0):.0f}s"
