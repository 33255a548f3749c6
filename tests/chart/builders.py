"""Values to begin with."""

from typing import Any

Values = dict[str, Any]

INSECURE: Values = {"insecure": True}
CERTIFICATES: Values = {"tls": {"certManager": {"enabled": True, "issuerRef": {"name": "ca"}}}}
ALL: Values = {"storage": {"enabled": True}, "proxy": {"enabled": True}}


def node(**values: Any) -> Values:
    """Return values of an insecure release whose node has these."""
    return {"insecure": True, "node": values}


def tiers(*listed: Values, **more: Any) -> Values:
    """Return values of an insecure release whose node has these tiers, and more."""
    return node(config={"tiers": list(listed)}, **more)


def memory_tier(capacity: object, name: str = "cpu0") -> Values:
    """Return a tier in host memory."""
    return {"name": name, "medium": "cpu", "capacity": capacity}


def file_tier(directory: str, capacity: object = "1TiB") -> Values:
    """Return a tier of files."""
    return {"name": "fs0", "medium": "fs", "capacity": capacity, "directory": directory}
