"""Errors: what a server says arrives at the client, and nothing a peer sends breaks either."""

import grpc
import pytest
from google.protobuf.any_pb2 import Any
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

from kvtier.wire.errors import (
    DETAILS_TRAILER,
    KvtierError,
    Reason,
    aborted,
    decode_details,
    decode_status,
    encode_details,
    exhausted,
    failed_precondition,
    invalid,
    not_found,
    quote,
    unavailable,
)

# What gRPC allows for all trailers together, before a peer refuses them.
TRAILER_LIMIT = 8192


def decode(*trailers: tuple[str, str | bytes]) -> KvtierError:
    return decode_details(grpc.StatusCode.ABORTED, "the lease ended", trailers)


def details_of(*details: Any) -> tuple[str, bytes]:
    return DETAILS_TRAILER, status_pb2.Status(details=details).SerializeToString()


def packed(message: error_details_pb2.ErrorInfo | error_details_pb2.RetryInfo) -> Any:
    detail = Any()
    detail.Pack(message)
    return detail


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (invalid("bad"), grpc.StatusCode.INVALID_ARGUMENT),
        (not_found("none", Reason.TIER_UNKNOWN), grpc.StatusCode.NOT_FOUND),
        (
            failed_precondition("no", Reason.NAMESPACE_DIFFERS, {"model": "a != b"}),
            grpc.StatusCode.FAILED_PRECONDITION,
        ),
        (
            exhausted("full", Reason.TIER_FULL, retry_after=1.5, metadata={"leased": "3"}),
            grpc.StatusCode.RESOURCE_EXHAUSTED,
        ),
        (aborted("ended"), grpc.StatusCode.ABORTED),
        (unavailable("draining", Reason.DRAINING, 0.25), grpc.StatusCode.UNAVAILABLE),
    ],
)
def test_an_error_arrives_as_it_was_sent(error: KvtierError, code: grpc.StatusCode) -> None:
    """Code, reason, message, facts and the time to wait all survive, in a trailer and by itself."""
    status = encode_details(error)

    got = decode_details(error.code, error.message, [(DETAILS_TRAILER, status)])

    assert error.code is code
    assert vars(got) == vars(decode_status(status)) == vars(error)
    assert str(got) == f"{error.message} ({error.reason})"


def test_the_trailer_is_a_status_that_other_clients_can_read() -> None:
    """The code and the message are in the details too, as AIP-193 has it."""
    status = status_pb2.Status.FromString(encode_details(invalid("width 3 is too small")))

    assert status.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert status.message == "width 3 is too small"


def test_an_error_without_details_keeps_its_code_and_message() -> None:
    """A proxy in between may answer without any details."""
    error = decode(("x-other", "text"), (DETAILS_TRAILER, "text, not bytes"))

    assert (error.code, error.reason, error.retry_after) == (grpc.StatusCode.ABORTED, "", None)
    assert str(error) == "the lease ended (ABORTED)"


@given(st.binary(max_size=64), st.booleans())
def test_hostile_details_never_hide_the_error(noise: bytes, info: bool) -> None:
    """Broken bytes, outside or inside a detail, leave the code and the message."""
    kind = error_details_pb2.ErrorInfo if info else error_details_pb2.RetryInfo
    detail = Any(type_url=f"type.googleapis.com/{kind.DESCRIPTOR.full_name}", value=noise)

    errors = [decode((DETAILS_TRAILER, noise)), decode(details_of(detail))]

    assert {error.message for error in errors} == {"the lease ended"}


@pytest.mark.parametrize("status", [b"\xff\xff", b"\x08\x63"], ids=["no status", "no such code"])
def test_a_status_that_says_nothing_is_unknown(status: bytes) -> None:
    """It is an error all the same."""
    assert decode_status(status).code is grpc.StatusCode.UNKNOWN


def test_a_broken_detail_inside_a_sound_status_is_passed_over() -> None:
    """The type is known and the value cannot be parsed."""
    broken = Any(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=b"\xff\xff")

    assert decode(details_of(broken)).reason == ""


def test_a_reason_of_another_domain_is_not_taken_for_ours() -> None:
    """A load balancer may add an ErrorInfo of its own."""
    foreign = packed(error_details_pb2.ErrorInfo(reason="TIER_FULL", domain="example.com"))
    own = packed(error_details_pb2.ErrorInfo(reason="DRAINING", domain="kvtier"))

    assert decode(details_of(foreign)).reason == ""
    assert decode(details_of(own, foreign)).reason == "DRAINING"


@pytest.mark.parametrize(("seconds", "waited"), [(-5, 0.0), (2, 2.0), (10**12, 3600.0)])
def test_a_time_to_wait_is_kept_within_reason(seconds: int, waited: float) -> None:
    """A peer can make a client neither wait for ever nor sleep for a negative time."""
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.seconds = seconds

    assert decode(details_of(packed(retry))).retry_after == waited


def test_no_error_outgrows_the_trailers() -> None:
    """A peer drops a call with larger trailers, and the reason would be lost with it."""
    facts = {f"field{i}": "v" * 5000 for i in range(20)}
    error = failed_precondition("m" * 5000, Reason.NAMESPACE_DIFFERS, facts)

    encoded = encode_details(error)

    got = decode((DETAILS_TRAILER, encoded))
    assert len(error.message) + len(encoded) * 4 / 3 < TRAILER_LIMIT
    assert got.reason == Reason.NAMESPACE_DIFFERS
    assert got.metadata["field0"] == "v" * 256 + "…"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"\x00\xff", "00ff"),
        ("gpu\n0", "'gpu\\n0'"),
        (17, "17"),
        (b"\xab" * 40, "ab" * 32 + "… (40 bytes)"),
        ("x" * 100, "'" + "x" * 63 + "… (100 characters)"),
    ],
)
def test_a_value_of_a_peer_is_quoted_short_and_printable(value: object, text: str) -> None:
    """A message never carries megabytes, nor control characters."""
    assert quote(value) == text
