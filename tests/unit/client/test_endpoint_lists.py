"""Lists of endpoints, as people and files write them."""

from typing import Any

import pytest

from kvtier.client import InvalidArgumentError
from kvtier.client.proxy.membership import static
from kvtier.client.proxy.membership.endpoints import parse_endpoints


async def test_a_fixed_list_comes_once_in_its_order() -> None:
    """Each endpoint once, where it stood first; then there is nothing more to tell."""
    lists = [each async for each in static(["b:1", "a:2", "b:1", "[::1]:3"])]

    assert lists == [("b:1", "a:2", "[::1]:3")]


async def test_a_fixed_list_may_be_empty() -> None:
    """A proxy may have nobody behind it."""
    assert [each async for each in static([])] == [()]


@pytest.mark.parametrize(
    "endpoint", ["node", "node:", "node:0", "node:70000", "a:1,b:2", "::1:7600", "a b:1", "", 5]
)
def test_a_fixed_list_refuses_what_is_no_endpoint(endpoint: Any) -> None:
    """The error comes at once, and quotes the value."""
    with pytest.raises(InvalidArgumentError, match="host:port") as refused:
        static(["good:1", endpoint])

    assert repr(endpoint) in str(refused.value)


def test_one_text_is_no_list() -> None:
    """A text is not taken letter by letter."""
    with pytest.raises(InvalidArgumentError, match="sequence of host:port"):
        static("node:7600")


def test_a_text_names_one_endpoint_a_line() -> None:
    """Comments, blank lines and space around are passed over; the order stays."""
    text = "# ours\nb:1  # first\n\n\ta:2\r\nb:1\nunix:/run/kvtier.sock"

    assert parse_endpoints(text) == ("b:1", "a:2", "unix:/run/kvtier.sock")


def test_a_text_of_comments_names_nobody() -> None:
    """Whoever wants no members says so."""
    assert parse_endpoints("# none\n") == ()


@pytest.mark.parametrize("text", ["", "\n", " \t\n\n"])
def test_an_empty_text_is_refused(text: str) -> None:
    """A file that was cut short is not taken for one without members."""
    with pytest.raises(ValueError, match="it is empty; a line '# none' says"):
        parse_endpoints(text)


def test_a_malformed_line_is_told_by_its_number() -> None:
    """The error names the line and quotes it."""
    with pytest.raises(ValueError, match=r"line 3: endpoint must be host:port.*'10.0.0.2'"):
        parse_endpoints("# ours\n10.0.0.1:7600\n10.0.0.2\n")
