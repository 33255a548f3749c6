"""What is written to the log: JSON, from libraries as well, and no secrets."""

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from tests.logged import logged

TOKEN = "c2VjcmV0LXRva2VuLXZhbHVl"
PEM = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEI\nAwEHoUQD\n-----END EC PRIVATE KEY-----\n"


@pytest.fixture
def written() -> Iterator[Callable[[], str]]:
    """Log as a node does; return what was written so far."""
    with logged() as text:
        yield text


@pytest.mark.parametrize(
    ("fields", "secret"),
    [
        ({"authorization": "Basic abc"}, "abc"),
        ({"client_token": TOKEN}, TOKEN),
        ({"aws_secret_access_key": "abcd"}, "abcd"),
        ({"password": 12345}, "12345"),
        ({"metadata": [("authorization", f"Bearer {TOKEN}")]}, TOKEN),
        ({"reason": f"sent bearer {TOKEN}, which is unknown"}, TOKEN),
        ({"reason": PEM}, "AwEHoUQD"),
        ({"reason": "s3 said no to AKIAABCDEFGHIJKLMNOP"}, "AKIAABCDEFGHIJKLMNOP"),
        ({"endpoint": "https://me:hunter2@s3.example"}, "hunter2"),
    ],
)
def test_a_secret_is_hidden_and_the_line_is_still_json(
    written: Callable[[], str], fields: dict[str, Any], secret: str
) -> None:
    """Whether a field's name tells it, or what it looks like in any field."""
    structlog.get_logger().info("said", other="kept", **fields)

    line = json.loads(written())
    assert secret not in written()
    assert "[hidden]" in written()
    assert (line["event"], line["other"]) == ("said", "kept")


def test_secrets_in_a_traceback_are_hidden(written: Callable[[], str]) -> None:
    """An exception's text is looked through as all else is."""
    structlog.get_logger().error("failed", exc_info=ValueError(f"Bearer {TOKEN}"))

    assert "ValueError: Bearer [hidden]" in json.loads(written())["exception"]


@pytest.mark.parametrize(
    "text",
    [
        "a bearer token is missing",
        "tokens_per_block is 16",
        "http://127.0.0.1:9000/bucket",
        "key ids 0123456789abcdef0123456789abcdef",
    ],
)
def test_ordinary_words_stay(written: Callable[[], str], text: str) -> None:
    """What only speaks of secrets is left as it is."""
    structlog.get_logger().info(text, tokens_per_block=16, key="namespaces/x")

    line = json.loads(written())
    assert (line["event"], line["tokens_per_block"], line["key"]) == (text, 16, "namespaces/x")


def test_what_libraries_say_is_a_line_like_all_others(written: Callable[[], str]) -> None:
    """With the library's logger, and without secrets."""
    logging.getLogger("opentelemetry.exporter").error("refused: Bearer %s", TOKEN)

    line = json.loads(written())
    assert (line["event"], line["level"]) == ("refused: Bearer [hidden]", "error")
    assert line["logger"] == "opentelemetry.exporter"
