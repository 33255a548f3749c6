"""The command line over TLS: whom it trusts, who it says that it is, and what goes wrong."""

import hashlib
import json
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority, replace

from .conftest import NODE, StartNode
from .test_cli_exit_codes import QUESTIONS

FLAGS = {
    "KVTIER_CACERT": "--cacert",
    "KVTIER_CERT": "--cert",
    "KVTIER_KEY": "--key",
    "KVTIER_TOKEN_FILE": "--token-file",
}


class Site:
    """Nodes that want to know their callers, and the files of one caller."""

    def __init__(self, directory: Path, start_node: StartNode) -> None:
        self.directory = directory
        self.authority = Authority()
        self.ca = replace(directory / "ca.pem", self.authority.cert)
        self.cert, self.key = self.authority.issue(uris=["spiffe://c/ops"]).write(directory, "ops")
        self.token = replace(directory / "token", b"let-me-in\n")
        cert, key = self.authority.server().write(directory, "server")
        digest = hashlib.sha256(b"let-me-in").hexdigest()
        tokens = replace(directory / "tokens", f"ops {digest}\n".encode())
        shown = {"cert": str(cert), "key": str(key)}
        grants = [{"identity": "token:ops", "role": "reader"}]
        self.mutual = start_node({**NODE, "tls": {**shown, "client_ca": str(self.ca)}})
        self.tokens = start_node(
            {**NODE, "tls": shown, "auth": {"tokens": str(tokens), "grants": grants}}
        )

    def as_ops(self) -> list[Any]:
        return ["-e", self.mutual.endpoint, "--cacert", self.ca, *self.certificate()]

    def certificate(self) -> list[Any]:
        return ["--cert", self.cert, "--key", self.key]

    def by_token(self) -> list[Any]:
        return ["-e", self.tokens.endpoint, "--cacert", self.ca, "--token-file", self.token]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, start_node: StartNode) -> Site:
    return Site(tmp_path_factory.mktemp("site"), start_node)


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*FLAGS, "KVTIER_USE_TLS", "KVTIER_TLS_SERVER_NAME"):
        monkeypatch.delenv(name, raising=False)


def one_line(text: str) -> str:
    """Return the only line of what was said."""
    (line,) = text.splitlines()
    return line


@pytest.mark.parametrize("who", [Site.as_ops, Site.by_token])
def test_a_known_caller_is_answered(cli: Any, site: Site, who: Callable[[Site], list[Any]]) -> None:
    """With a certificate, and with a token, before and after the command."""
    before = cli(*who(site), "-o", "json", "get", "nodes")
    after = cli("get", "nodes", "-o", "json", *who(site))

    for done in (before, after):
        assert done.code == 0, done.err
        assert [node["node_id"] for node in json.loads(done.out)] == ["node-a"]


def test_blocks_go_both_ways_over_tls(cli: Any, site: Site, tmp_path: Path) -> None:
    """What is put over TLS is loaded over TLS, byte for byte, and the events tell of it."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(bytes(range(64)))
    put = cli("put", source, "-n", "tls", "--block-bytes", 64, "-o", "json", *site.as_ops())
    assert put.code == 0, put.err
    (block,) = [record["block_hash"] for record in json.loads(put.out)]

    load = cli("load", block, "-n", "tls", "--to", target, *site.as_ops())
    watch = cli("watch", "--limit", 1, "--for", 20, "-o", "jsonl", *site.as_ops())

    assert load.code == 0, load.err
    assert target.read_bytes() == source.read_bytes()
    assert watch.code == 0, watch.err
    assert block in watch.text


def test_the_environment_says_it_as_well(
    cli: Any, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each option has a variable, and the option wins over it."""
    monkeypatch.setenv("KVTIER_CACERT", str(site.ca))
    monkeypatch.setenv("KVTIER_CERT", str(site.cert))
    monkeypatch.setenv("KVTIER_KEY", str(site.key))
    assert cli("get", "nodes", "-e", site.mutual.endpoint).code == 0

    missing = cli("get", "nodes", "-e", site.mutual.endpoint, "--cacert", "/no/such/ca.pem")
    assert missing.code == 2
    assert one_line(missing.err) == (
        "error: kvtier: /no/such/ca.pem cannot be read: no such file or directory"
    )


def test_the_authorities_of_the_system_are_enough(
    cli: Any, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--tls alone trusts what the system trusts, and nothing else."""
    where = ["get", "nodes", "-e", site.tokens.endpoint, "--tls", "--token-file", site.token]
    monkeypatch.setenv("SSL_CERT_FILE", str(site.ca))
    assert cli(*where).code == 0

    monkeypatch.setenv("SSL_CERT_FILE", str(replace(site.directory / "o.pem", Authority().cert)))
    assert cli(*where).code == 5


def test_a_ping_needs_no_identity(cli: Any, site: Site) -> None:
    """Health is answered to everybody who speaks TLS."""
    done = cli("ping", "-c", 1, "-e", site.tokens.endpoint, "--cacert", site.ca)

    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("name", sorted(QUESTIONS.keys() - {"ping"}))
def test_a_caller_without_an_identity_is_told_by_exit_code_5(
    cli: Any, site: Site, name: str
) -> None:
    """Every other command says so in one line, and stdout stays empty or JSON."""
    where = ["-o", "json", "-e", site.tokens.endpoint, "--cacert", site.ca]
    done = cli(*where, *QUESTIONS[name], stdin=b"1234")

    assert done.code == 5
    assert "(NO_IDENTITY)" in one_line(done.err)
    json.loads(done.text or "[]")


def test_what_a_role_does_not_allow_is_told_by_exit_code_5(cli: Any, site: Site) -> None:
    """A reader may not clear a tier."""
    done = cli("clear", "--tier", "cpu0", "--yes", *site.by_token())

    assert done.code == 5
    assert "needs the role admin" in one_line(done.err)


def _other_authority(site: Site) -> tuple[list[Any], int, str]:
    path = replace(site.directory / "other.pem", Authority().cert)
    flags = ["-e", site.mutual.endpoint, "--cacert", path, *site.certificate()]
    return flags, 5, "shows a certificate of an authority that is not trusted here"


def _no_certificate(site: Site) -> tuple[list[Any], int, str]:
    return (
        ["-e", site.mutual.endpoint, "--cacert", site.ca],
        5,
        "ended the TLS handshake; it may want a client certificate",
    )


def _wrong_token(site: Site) -> tuple[list[Any], int, str]:
    path = replace(site.directory / "wrong", b"let-him-in")
    flags = ["-e", site.tokens.endpoint, "--cacert", site.ca, "--token-file", path]
    return flags, 5, "(BAD_TOKEN)"


def _plaintext(site: Site) -> tuple[list[Any], int, str]:
    return ["-e", site.tokens.endpoint], 4, "it may serve TLS: name its authorities"


def _another_name(site: Site) -> tuple[list[Any], int, str]:
    flags = [*site.as_ops(), "--tls-server-name", "elsewhere"]
    return flags, 5, "shows a certificate for another name"


def _half_a_pair(site: Site) -> tuple[list[Any], int, str]:
    flags = ["-e", site.mutual.endpoint, "--cacert", site.ca, "--cert", site.cert]
    return flags, 2, "belong together"


def _garbage(site: Site) -> tuple[list[Any], int, str]:
    path = replace(site.directory / "garbage.pem", b"garbage")
    flags = ["-e", site.mutual.endpoint, "--cacert", path]
    return flags, 2, f"{path} holds no certificate in PEM"


def _another_key(site: Site) -> tuple[list[Any], int, str]:
    path = replace(site.directory / "another-key.pem", site.authority.issue(["x"]).key)
    flags = ["-e", site.mutual.endpoint, "--cert", site.cert, "--key", path]
    return flags, 2, f"{path} is not the key of the certificate in {site.cert}"


def _expired(site: Site) -> tuple[list[Any], int, str]:
    issued = site.authority.issue(["x"], lasts=timedelta(minutes=-1))
    cert, key = issued.write(site.directory, "expired")
    flags = ["-e", site.mutual.endpoint, "--cert", cert, "--key", key]
    return flags, 2, f"{cert} expired at "


def _no_token_file(site: Site) -> tuple[list[Any], int, str]:
    flags = ["-e", site.tokens.endpoint, "--cacert", site.ca, "--token-file", "/no/such/token"]
    return flags, 2, "/no/such/token cannot be read: no such file"


def _token_in_plaintext(site: Site) -> tuple[list[Any], int, str]:
    flags = ["-e", "node.invalid:7600", "--token-file", site.token]
    return flags, 2, "the token is not sent to node.invalid:7600"


def _name_without_tls(site: Site) -> tuple[list[Any], int, str]:
    flags = ["-e", site.tokens.endpoint, "--tls-server-name", "x"]
    return flags, 2, "--tls-server-name does nothing without TLS"


@pytest.mark.parametrize(
    "case",
    [
        _other_authority,
        _no_certificate,
        _wrong_token,
        _plaintext,
        _another_name,
        _half_a_pair,
        _garbage,
        _another_key,
        _expired,
        _no_token_file,
        _token_in_plaintext,
        _name_without_tls,
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    cli: Any, site: Site, case: Callable[[Site], tuple[list[Any], int, str]]
) -> None:
    """The exit code tells the kind, and the line names the file or the node and the flaw."""
    flags, code, words = case(site)

    done = cli("get", "tiers", "-o", "json", *flags)

    assert words in one_line(done.err)
    assert done.code == code
    assert json.loads(done.text or "[]") == []
    assert "let-me-in" not in done.err


@pytest.mark.slow
def test_a_process_says_one_line_as_well(site: Site, start_cli: Any) -> None:
    """What the libraries have to say of a failed handshake does not stand beside it."""
    flags, code, words = _other_authority(site)

    process = start_cli("get", "tiers", *flags)
    _, err = process.communicate(timeout=60)

    assert process.returncode == code
    assert words in one_line(err.decode())


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        yield bound


@pytest.mark.parametrize("broken", ["--cacert", "--token-file"])
def test_nothing_is_sent_when_a_file_is_broken(
    cli: Any, listener: socket.socket, tmp_path: Path, broken: str
) -> None:
    """The command does not even connect, in plaintext or otherwise."""
    endpoint = f"127.0.0.1:{listener.getsockname()[1]}"
    done = cli("get", "nodes", "-e", endpoint, broken, replace(tmp_path / "x", b"\n\xff"))

    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.accept()
    assert done.code == 2


def test_verbose_adds_all_that_is_known(cli: Any, site: Site) -> None:
    """The status, gRPC's own words and the rest stand in brackets behind the line."""
    flags, _, words = _other_authority(site)

    short, long = cli("get", "tiers", *flags), cli("-v", "get", "tiers", *flags)

    assert "SSL_ERROR_SSL" not in short.err
    assert one_line(long.err).startswith(one_line(short.err))
    assert words in long.err
    assert "[UNAVAILABLE: " in long.err
    assert "SSL_ERROR_SSL" in long.err
