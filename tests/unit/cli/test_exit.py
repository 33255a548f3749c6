"""How commands end: exit codes and one-line errors."""

import errno
import os
from pathlib import Path

import click
import grpc
import pytest

from kvtier.cli.exit import CommandError, ExitCode, Terminated, conclude, from_node, told_by
from kvtier.cli.main import main
from kvtier.wire.errors import KvtierError, Reason

CODES = {
    grpc.StatusCode.INVALID_ARGUMENT: 2,
    grpc.StatusCode.NOT_FOUND: 3,
    grpc.StatusCode.UNAVAILABLE: 4,
    grpc.StatusCode.DEADLINE_EXCEEDED: 4,
    grpc.StatusCode.UNAUTHENTICATED: 5,
    grpc.StatusCode.PERMISSION_DENIED: 5,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 1,
    grpc.StatusCode.FAILED_PRECONDITION: 1,
    grpc.StatusCode.ABORTED: 1,
    grpc.StatusCode.DATA_LOSS: 1,
    grpc.StatusCode.INTERNAL: 1,
}


@pytest.mark.parametrize(("status", "code"), CODES.items(), ids=str)
def test_each_kind_of_refusal_has_its_exit_code(status: grpc.StatusCode, code: int) -> None:
    """A script can tell usage, not found, out of reach and not allowed apart by the exit code."""
    error = from_node("n:1", KvtierError(status, "", "no"))

    assert error.code == code


def test_a_refusal_is_one_line_of_who_what_why_and_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An error names the node, the fault, the reason and when to try again."""
    refusal = KvtierError(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        Reason.TIER_FULL,
        "tier cpu0 is full:\n8 of 8 slots are leased.",
        retry_after=0.2,
    )

    code = conclude(from_node("node:7600", refusal))

    assert code == ExitCode.FAILED
    assert capsys.readouterr().err == (
        "error: node:7600: tier cpu0 is full: 8 of 8 slots are leased (TIER_FULL); retry in 0.2 s\n"
    )


def test_a_caller_whom_nobody_knows_is_told_how_to_show_who_it_is() -> None:
    """By the options of the command line, beside what the node says."""
    refusal = KvtierError(
        grpc.StatusCode.UNAUTHENTICATED, Reason.NO_IDENTITY, "send the metadata 'authorization'"
    )

    assert str(from_node("n:1", refusal)) == (
        "n:1: send the metadata 'authorization' (NO_IDENTITY); "
        "name a token with --token-file, or a certificate with --cert and --key"
    )


def test_a_drain_and_a_dead_address_are_told_apart() -> None:
    """A node that says it is draining is quoted; one that says nothing cannot be reached."""
    draining = KvtierError(grpc.StatusCode.UNAVAILABLE, Reason.DRAINING, "node a is draining")
    dead = KvtierError(grpc.StatusCode.UNAVAILABLE, "", "n:1 cannot be reached; (long story)")

    assert str(from_node("n:1", draining)) == "n:1: node a is draining (DRAINING)"
    assert str(from_node("n:1", dead)) == (
        "n:1: cannot be reached (UNAVAILABLE); "
        "check that a node serves there, or name another with -e"
    )


def test_errors_of_calls_name_the_node_that_was_called() -> None:
    """Inside `told_by` a client's error becomes a command's error with the endpoint."""
    with pytest.raises(CommandError) as caught, told_by("n:1"):
        raise KvtierError(grpc.StatusCode.NOT_FOUND, Reason.TIER_UNKNOWN, "no tier 'x'")

    assert str(caught.value) == "n:1: no tier 'x' (TIER_UNKNOWN)"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
        (Terminated(), 143),
        (click.exceptions.Exit(0), 0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_interruptions_are_quiet(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C, a terminal's no, SIGTERM and a plain exit say nothing."""
    assert conclude(error) == code
    assert capsys.readouterr() == ("", "")


def test_a_file_that_fails_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """What the system says of a file becomes one line with its name."""
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "out.bin")

    assert conclude(error) == ExitCode.FAILED
    assert capsys.readouterr().err == "error: kvtier: out.bin: No space left on device\n"


def test_a_defect_is_not_hidden() -> None:
    """An error that no command expects keeps its traceback."""
    with pytest.raises(ZeroDivisionError):
        conclude(ZeroDivisionError())


HASH = "ab" * 32
USAGE = {
    "a flag that does not exist": ["get", "nodes", "--nope"],
    "a command that does not exist": ["gett"],
    "a missing command": ["get"],
    "an unknown format": ["-o", "xml", "version"],
    "a missing namespace": ["lookup", HASH],
    "no hashes": ["lookup", "-n", "x"],
    "a hash that is no hexadecimal": ["lookup", "-n", "x", "xyz"],
    "a hash that is too short": ["lookup", "-n", "x", "abcd"],
    "a weight that is no number": ["lookup", HASH, "-n", "x", "--all-nodes", "--weight", "cpu=x"],
    "a weight below 0": ["lookup", HASH, "-n", "x", "--all-nodes", "--weight", "cpu=-1"],
    "a weight of no medium": ["lookup", HASH, "-n", "x", "--all-nodes", "--weight", "tape=1"],
    "weights without nodes to rank": ["lookup", HASH, "-n", "x", "--weight", "cpu=1"],
    "nodes to rank block by block": ["lookup", HASH, "-n", "x", "--all-nodes", "--blocks"],
    "a limit of 0": ["get", "blocks", "--limit", "0"],
    "a negative timeout": ["--timeout", "-1", "get", "nodes"],
    "an empty endpoint": ["-e", "", "get", "nodes"],
    "a malformed endpoint": ["-e", "nonsense", "get", "nodes"],
    "two nodes for a command that speaks to one": ["-e", "a:1,b:1", "clear", "--tier", "t", "-y"],
    "a missing file": ["put", "does-not-exist", "-n", "x"],
    "a missing trace": ["replay", "does-not-exist", "--capacity", "1"],
    "a removal with nobody to ask": ["clear", "--tier", "cpu0"],
    "a drain with nobody to ask": ["drain"],
    "a drain that is waited for no time": ["drain", "--yes", "--wait", "0"],
}


@pytest.mark.parametrize("arguments", USAGE.values(), ids=USAGE.keys())
def test_wrong_use_ends_with_2_one_line_and_no_data(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong use is told in one line on stderr, with where to read on, and stdout stays empty."""
    code = main(arguments)

    out, err = capsys.readouterr()
    assert code == ExitCode.USAGE
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1


SIZES = ["512MBx", "-1", "512m", "1 2", "half"]


@pytest.mark.parametrize("size", SIZES)
def test_a_size_that_is_none_is_named(
    size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A size that cannot be read is refused with the value and how to write it."""
    trace = tmp_path / "trace.jsonl"
    trace.write_text("")

    code = main(["replay", str(trace), "--capacity", "1", "--block-bytes", size])

    assert code == ExitCode.USAGE
    assert repr(size) in capsys.readouterr().err
