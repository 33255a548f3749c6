"""Reading a trace of requests: one JSON object a line, as Mooncake published them."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

MAX_ID = 2**64 - 1
TOKENS_PER_BLOCK = 512


class Request(NamedTuple):
    """One request of a trace.

    Attributes:
        timestamp: When it came, in ms from the trace's start.
        input_length: Tokens of the prompt.
        output_length: Tokens of the answer.
        hash_ids: The prompt's blocks in order; an id stands for the block and all before it.
    """

    timestamp: int
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...]


class TraceError(ValueError):
    """A line that is no request; the message names it by number."""


def read_trace(path: Path) -> Iterator[Request]:
    """Yield the requests of a trace file one by one; blank lines are passed over.

    Raises:
        TraceError: At the first line that is no request.
    """
    with path.open("rb") as lines:
        yield from parse_trace(lines, path.name)


def parse_trace(lines: Iterable[bytes | str], name: str) -> Iterator[Request]:
    """Yield the requests in lines of text; `name` says in errors where they are from."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield parse_request(line)
        except ValueError as error:
            raise TraceError(f"{name}, line {number}: {error}") from error


def parse_request(line: bytes | str) -> Request:
    """Return the request in one line.

    Raises:
        ValueError: When it is none, saying why.
    """
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON at column {error.colno}: {error.msg}") from error
    if not isinstance(fields, dict):
        raise ValueError("a JSON object is expected")  # noqa: TRY004 - a fault of the value
    ids = fields.get("hash_ids")
    if not isinstance(ids, list) or not ids:
        raise ValueError("hash_ids must be a list of at least one number")
    for value in ids:
        _number("hash_ids", value)
    return Request(
        _number("timestamp", fields.get("timestamp")),
        _number("input_length", fields.get("input_length")),
        _number("output_length", fields.get("output_length")),
        tuple(ids),
    )


def format_request(request: Request) -> str:
    """Return a request as a line of a trace, without the line's end."""
    return json.dumps(request._asdict())


def count_requests(path: Path) -> int | None:
    """Return how many requests a trace file has; None where reading it would use it up."""
    if not S_ISREG(path.stat().st_mode):
        return None
    with path.open("rb") as lines:
        return sum(1 for line in lines if line.strip())


def _number(field: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_ID:
        raise ValueError(f"{field} holds {value!r}; whole numbers from 0 to 2^64-1 are expected")
    return value
