"""Reading traces."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtier.cli.trace import (
    MAX_ID,
    Request,
    TraceError,
    count_requests,
    format_request,
    parse_request,
    parse_trace,
    read_trace,
)

GOOD = {"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [0, 7]}
NUMBERS = st.integers(min_value=0, max_value=MAX_ID)


def test_a_trace_is_read_in_order(tmp_path: Path) -> None:
    """Each line is a request; blank lines are passed over, further fields are ignored."""
    path = tmp_path / "trace.jsonl"
    path.write_text(
        json.dumps(GOOD) + "\n\n" + json.dumps({**GOOD, "hash_ids": [3], "x": 1}) + "\n"
    )

    requests = list(read_trace(path))

    assert requests == [Request(0, 700, 5, (0, 7)), Request(0, 700, 5, (3,))]
    assert count_requests(path) == 2


def test_a_trace_is_read_as_it_comes() -> None:
    """The first request is there before the last line was read."""

    def endless() -> object:
        yield json.dumps(GOOD)
        raise AssertionError("read too far")

    requests = parse_trace(endless(), "x")  # type: ignore[arg-type]

    assert next(requests).hash_ids == (0, 7)


def test_requests_of_a_pipe_are_not_counted(tmp_path: Path) -> None:
    """Counting would use a pipe up, so it is left alone."""
    path = tmp_path / "pipe"
    os.mkfifo(path)

    assert count_requests(path) is None


BAD = {
    "no JSON": ("{", "no JSON"),
    "no object": ("[1]", "a JSON object is expected"),
    "no ids": ('{"timestamp": 0}', "hash_ids must be a list"),
    "an empty list of ids": (json.dumps({**GOOD, "hash_ids": []}), "hash_ids must be a list"),
    "a negative id": (json.dumps({**GOOD, "hash_ids": [-1]}), "hash_ids holds -1"),
    "an id beyond 64 bits": (json.dumps({**GOOD, "hash_ids": [2**64]}), "hash_ids holds 184467"),
    "an id that is text": (json.dumps({**GOOD, "hash_ids": ["1"]}), "hash_ids holds '1'"),
    "an id that is true": (json.dumps({**GOOD, "hash_ids": [True]}), "hash_ids holds True"),
    "a missing length": ('{"timestamp": 0, "hash_ids": [1]}', "input_length holds None"),
    "bytes that are no text": (b"\xff\xfe{}", "no JSON"),
}


@pytest.mark.parametrize(("line", "why"), BAD.values(), ids=BAD.keys())
def test_a_bad_line_is_named_by_number(line: str | bytes, why: str) -> None:
    """The error says in which line of which file what was wrong."""
    lines = [json.dumps(GOOD), "", line]

    with pytest.raises(TraceError, match=r"t\.jsonl, line 3: ") as caught:
        list(parse_trace(lines, "t.jsonl"))

    assert why in str(caught.value)


@given(NUMBERS, NUMBERS, NUMBERS, st.lists(NUMBERS, min_size=1, max_size=9))
def test_a_request_reads_back_as_it_was_written(
    timestamp: int, input_length: int, output_length: int, ids: list[int]
) -> None:
    """Writing a request as a line and reading it gives the same request."""
    request = Request(timestamp, input_length, output_length, tuple(ids))

    assert parse_request(format_request(request)) == request
