"""An S3 server for the walks over tiers of objects, and short pauses."""

import pytest

from kvtier.server import scrub
from kvtier.server.lasting import healing, recovery
from tests.s3.conftest import bucket, credentials, endpoint

__all__ = ["bucket", "credentials", "endpoint"]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (healing, recovery):
        monkeypatch.setattr(module, "_FIRST_PAUSE", 0.02)
        monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.1)
    monkeypatch.setattr(scrub, "_PAUSE", 0.02)
