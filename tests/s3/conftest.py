"""An S3 server, a relay before it, and a prefix for each test."""

from collections.abc import Iterator

import pytest

from tests.s3.relay import Relay
from tests.s3.server import CREDENTIALS, GIVEN_ENDPOINT, S3Server, s3_client
from tests.s3.shelves import Place

_BUCKET = "kvtier-tests"


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """The URL of a server that no test kills."""
    if GIVEN_ENDPOINT:
        yield GIVEN_ENDPOINT
        return
    with S3Server() as server:
        yield server.endpoint


@pytest.fixture(scope="session")
def bucket(endpoint: str) -> str:
    client = s3_client(endpoint)
    if _BUCKET not in {each["Name"] for each in client.list_buckets()["Buckets"]}:
        client.create_bucket(Bucket=_BUCKET)
    return _BUCKET


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def place(endpoint: str, bucket: str) -> Place:
    return Place(endpoint, bucket)


@pytest.fixture
def relay(endpoint: str) -> Iterator[Relay]:
    with Relay(endpoint) as relay:
        yield relay
