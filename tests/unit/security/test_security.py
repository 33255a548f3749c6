"""The files of TLS and of tokens at the start: good ones, or one line that says what is wrong."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from structlog.testing import capture_logs

from kvtier.proxy.config import ProxyConfig
from kvtier.server.config import ConfigError, NodeConfig
from kvtier.server.security.security import Security
from tests.certificates import Authority, replace
from tests.contract.secured import Files, write_tokens

LATER = timedelta(hours=1)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path, Authority())


def settings(files: Files) -> dict[str, Any]:
    tokens = write_tokens(files.ca.parent / "tokens", "ops")
    return {"tls": files.settings(), "auth": {"tokens": str(tokens)}}


def refusal(given: dict[str, Any], model: Any = NodeConfig) -> str:
    needed = {"primary": "192.0.2.9:7600"} if model is ProxyConfig else {}
    with pytest.raises(ConfigError) as refused:
        Security(model.model_validate(needed | given))
    return str(refused.value)


def with_key(files: Files, key: Any) -> None:
    files.show(files.authority.issue(["localhost"], key=key))


def become_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


BROKEN: dict[str, tuple[str, Callable[[Files], Any], str]] = {
    "no certificate": ("server.pem", lambda f: f.cert.unlink(), "cannot be read: no such file"),
    "no key": ("server-key.pem", lambda f: f.key.unlink(), "cannot be read: no such file"),
    "a directory": (
        "server.pem",
        lambda f: become_directory(f.cert),
        "cannot be read: is a directory",
    ),
    "garbage": ("server.pem", lambda f: replace(f.cert, b"garbage"), "holds no certificate"),
    "a garbled key": ("server-key.pem", lambda f: replace(f.key, b"x"), "holds no private key"),
    "the key of another": (
        "server-key.pem",
        lambda f: replace(f.key, f.authority.server().key),
        "is not the key of the certificate in",
    ),
    "an expired one": (
        "server.pem",
        lambda f: f.show(f.authority.issue(["localhost"], lasts=-LATER)),
        "expired at",
    ),
    "one for later": (
        "server.pem",
        lambda f: f.show(f.authority.issue(["localhost"], begins=LATER, lasts=2 * LATER)),
        "is not valid before",
    ),
    "a key that callers do not know": (
        "server-key.pem",
        lambda f: with_key(f, ed25519.Ed25519PrivateKey.generate()),
        "use RSA, P-256 or P-384",
    ),
    "a curve that callers do not know": (
        "server-key.pem",
        lambda f: with_key(f, ec.generate_private_key(ec.SECP521R1())),
        "use RSA, P-256 or P-384",
    ),
    "no authorities": ("ca.pem", lambda f: f.ca.unlink(), "cannot be read: no such file"),
    "an expired authority": (
        "ca.pem",
        lambda f: replace(f.ca, Authority(lasts=-LATER).cert),
        "expired at",
    ),
    "a list of a stranger": (
        "crl.pem",
        lambda f: replace(f.crl, Authority("stranger").revoke([])),
        "no authority in client_ca has signed",
    ),
}


@pytest.mark.parametrize("model", [NodeConfig, ProxyConfig])
@pytest.mark.parametrize("kind", BROKEN)
def test_a_file_that_cannot_be_used_stops_the_start(files: Files, kind: str, model: Any) -> None:
    """With one line that names the setting, the file and the reason; never in plaintext."""
    name, break_it, why = BROKEN[kind]
    given = settings(files)
    break_it(files)

    told = refusal(given, model)

    assert told.startswith(f"tls: {files.ca.parent / name} ")
    assert why in told
    assert "\n" not in told


@pytest.mark.parametrize("model", [NodeConfig, ProxyConfig])
def test_tokens_that_cannot_be_read_stop_the_start(files: Files, model: Any) -> None:
    """As certificates do."""
    given = settings(files)
    (files.ca.parent / "tokens").unlink()

    assert refusal(given, model).startswith(f"auth.tokens: {files.ca.parent / 'tokens'} cannot be")


def test_good_files_are_taken(files: Files) -> None:
    """Here TLS with certificates of callers, and tokens."""
    security = Security(NodeConfig.model_validate(settings(files)))

    assert security.credentials is not None
    assert set(security.expiries()) == {"cert", "client_ca"}


def test_without_settings_there_is_nothing_around_a_call() -> None:
    """So it costs nothing."""
    security = Security(NodeConfig())

    assert security.credentials is None
    assert security.guards(None) == ()  # type: ignore[arg-type]
    assert security.expiries() == {}


def test_tls_of_the_server_alone_asks_nobody_who_it_is(files: Files) -> None:
    """Neither does that cost a call anything."""
    given = {"tls": files.settings(callers=False)}

    assert Security(NodeConfig.model_validate(given)).guards(None) == ()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("listen", "warnings"),
    [("192.0.2.1:7600", 1), ("0.0.0.0:0", 1), ("127.0.0.1:0", 0), ("unix:/run/kv.sock", 0)],
)
async def test_going_without_tls_is_told_once(listen: str, warnings: int) -> None:
    """Where it matters: others can reach the address."""
    security = Security(NodeConfig(listen=listen, insecure=True))
    with capture_logs() as logs:
        await security.watch()

    assert [line["log_level"] for line in logs] == ["warning"] * warnings
    assert all(line["listen"] == listen for line in logs)
