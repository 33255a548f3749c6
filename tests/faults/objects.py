"""Nodes with a tier of objects behind a relay."""

from typing import Any

from tests.s3.relay import Relay
from tests.s3.server import CREDENTIALS
from tests.s3.shelves import Place

OBJECTS = "obj0"
WITH_CREDENTIALS = ("env", *(f"{name}={value}" for name, value in CREDENTIALS.items()))


def objects_tier(place: Place, relay: Relay, **fields: Any) -> dict[str, Any]:
    """The configuration of a tier of objects, with plenty of room."""
    return {
        "name": OBJECTS,
        "medium": "obj",
        "capacity": "64MiB",
        "url": place.url,
        "endpoint": relay.endpoint,
        "io_timeout": 2,
        **fields,
    }
