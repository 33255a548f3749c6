"""Credentials are checked when they are made, and read again when their files change."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kvtier.wire.credentials import LOOK_SECONDS, Credentials, CredentialsError
from tests.certificates import Authority, replace
from tests.waiting import until

PAST = timedelta(minutes=-1)


class Files:
    """The files of a caller, and credentials of them whose time a test turns."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority()
        self.directory = directory
        self.ca = replace(directory / "ca.pem", self.authority.cert)
        self.cert, self.key = self.authority.issue(["engine"]).write(directory, "caller")
        self.token = replace(directory / "token", b"first\n")
        self.told: list[str] = []
        self.now = 0.0

    def credentials(self, **changed: Any) -> Credentials:
        files = {"ca": self.ca, "cert": self.cert, "key": self.key, "token_file": self.token}
        return Credentials(**{**files, **changed}, clock=lambda: self.now, tell=self.told.append)

    def renew(self, **how: Any) -> None:
        self.authority.issue(["engine"], **how).write(self.directory, "caller")

    def pass_time(self) -> None:
        self.now += LOOK_SECONDS


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def _missing(files: Files) -> tuple[Path, str]:
    files.cert.unlink()
    return files.cert, "cannot be read: no such file"


def _a_directory(files: Files) -> tuple[Path, str]:
    files.ca.unlink()
    files.ca.mkdir()
    return files.ca, "cannot be read: is a directory"


def _garbage(files: Files) -> tuple[Path, str]:
    files.cert.write_bytes(b"\x00garbage")
    return files.cert, "holds no certificate in PEM"


def _empty_authorities(files: Files) -> tuple[Path, str]:
    files.ca.write_bytes(b"")
    return files.ca, "holds no certificate in PEM"


def _garbage_key(files: Files) -> tuple[Path, str]:
    files.key.write_bytes(b"garbage")
    return files.key, "holds no private key in PEM"


def _another_key(files: Files) -> tuple[Path, str]:
    files.key.write_bytes(files.authority.issue(["other"]).key)
    return files.key, f"is not the key of the certificate in {files.cert}"


def _expired(files: Files) -> tuple[Path, str]:
    files.renew(lasts=PAST)
    return files.cert, "expired at "


def _expired_authority(files: Files) -> tuple[Path, str]:
    files.ca.write_bytes(Authority(lasts=PAST).cert)
    return files.ca, "expired at "


def _no_token_file(files: Files) -> tuple[Path, str]:
    files.token.unlink()
    return files.token, "cannot be read: no such file"


def _empty_token(files: Files) -> tuple[Path, str]:
    files.token.write_bytes(b"\n")
    return files.token, "holds no bearer token"


def _two_tokens(files: Files) -> tuple[Path, str]:
    files.token.write_bytes(b"one\ntwo\n")
    return files.token, "holds no bearer token"


def _binary_token(files: Files) -> tuple[Path, str]:
    files.token.write_bytes(b"\xff\xfe")
    return files.token, "holds no bearer token"


BROKEN = [
    _missing,
    _a_directory,
    _garbage,
    _empty_authorities,
    _garbage_key,
    _another_key,
    _expired,
    _expired_authority,
    _no_token_file,
    _empty_token,
    _two_tokens,
    _binary_token,
]


@pytest.mark.parametrize("harm", BROKEN)
def test_a_file_that_cannot_be_used_is_told_in_one_line(
    files: Files, harm: Callable[[Files], tuple[Path, str]]
) -> None:
    """Making credentials fails, and the line names the file and says what is wrong with it."""
    path, why = harm(files)

    with pytest.raises(CredentialsError) as caught:
        files.credentials()

    assert str(caught.value).startswith(f"{path} {why}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("harm", BROKEN)
def test_a_change_that_cannot_be_used_changes_nothing(
    files: Files, harm: Callable[[Files], tuple[Path, str]]
) -> None:
    """What was read before stays, and what is wrong is told once it stays so, once."""
    credentials = files.credentials()
    before = credentials.identity()
    path, why = harm(files)

    for _ in range(4):
        files.pass_time()
        assert credentials.identity() is before

    assert len(files.told) == 1
    assert files.told[0].startswith(f"{path} {why}")
    assert credentials.problem.startswith(f"{path} {why}")


def test_a_key_and_a_certificate_belong_together(files: Files) -> None:
    """One without the other is refused."""
    with pytest.raises(CredentialsError, match="belong together"):
        files.credentials(key=None)


def test_a_token_is_told_in_one_way(files: Files) -> None:
    """A token beside a file of a token is refused."""
    with pytest.raises(CredentialsError, match="give one of them"):
        files.credentials(token="second")


def test_a_token_is_never_in_a_message(files: Files) -> None:
    """The error about a token does not repeat it."""
    with pytest.raises(CredentialsError) as caught:
        files.credentials(token_file=None, token="secret with spaces")

    assert "secret" not in str(caught.value)


def test_files_that_changed_make_another_identity(files: Files) -> None:
    """It is there after a second, and nothing is read before or without a change."""
    credentials = files.credentials()
    first = credentials.identity()
    replace(files.token, b"second\n")
    files.renew()

    assert credentials.identity() is first
    files.pass_time()
    second = credentials.identity()
    files.pass_time()

    assert second is not first
    assert second.token == "second"
    assert credentials.identity() is second
    assert files.told == []


def test_files_are_mended(files: Files) -> None:
    """After a change that cannot be used the next good one counts, and nothing is wrong then."""
    credentials = files.credentials()
    first = credentials.identity()
    files.cert.write_bytes(b"garbage")
    for _ in range(2):
        files.pass_time()
        credentials.identity()
    files.renew()
    files.pass_time()

    assert credentials.identity() is not first
    assert credentials.problem == ""


def test_a_certificate_written_before_its_key_is_no_problem(files: Files) -> None:
    """A look between the two writes of a rotation tells nothing."""
    credentials, issued = files.credentials(), files.authority.issue(["engine"])
    first = credentials.identity()
    files.cert.write_bytes(issued.cert)
    files.pass_time()
    assert credentials.identity() is first
    files.key.write_bytes(issued.key)
    files.pass_time()

    assert credentials.identity() is not first
    assert files.told == []


async def test_a_certificate_that_ends_while_it_is_used_is_a_problem(files: Files) -> None:
    """It is named, although its file has not changed."""
    files.renew(lasts=timedelta(seconds=1))
    credentials = files.credentials()

    await until(lambda: credentials.problem)

    assert credentials.problem.startswith(f"{files.cert} expired at ")


def test_a_token_is_not_sent_to_another_host_in_plaintext(files: Files) -> None:
    """It goes to loopback and to sockets of this host; elsewhere it takes TLS."""
    plain = Credentials(token_file=files.token).identity()
    tls = files.credentials().identity()

    for target in ("127.0.0.1:1", "localhost:1", "[::1]:1", "unix:/tmp/s", "dns:///127.0.0.1:1"):
        plain.check(target)
    tls.check("node.example:7600")
    others = ("10.0.0.1:1", "node.example:1", "localhost.example:1", "ipv4:127.0.0.1:1,10.0.0.1:2")
    for target in others:
        with pytest.raises(CredentialsError, match="the token is not sent"):
            plain.check(target)
        with pytest.raises(CredentialsError, match="the token is not sent"):
            plain.open(target, [])


def test_without_authorities_those_of_the_system_are_read(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SSL_CERT_FILE names them; where there are none, that is said and nothing is trusted."""
    monkeypatch.setenv("SSL_CERT_FILE", str(files.ca))
    assert Credentials(tls=True).identity().tls is not None

    monkeypatch.setenv("SSL_CERT_FILE", str(files.directory / "none.pem"))
    with pytest.raises(CredentialsError, match="no file of authorities"):
        Credentials(tls=True)
