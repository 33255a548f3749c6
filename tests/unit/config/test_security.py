"""The settings of TLS, callers and grants: what goes together, and what does not."""

from pathlib import Path
from typing import Any

import pytest

from kvtier.proxy.config import ProxyConfig
from kvtier.server.config import ConfigError, NodeConfig
from kvtier.server.config.load import load_settings

TLS = {"cert": "cert.pem", "key": "key.pem"}
MTLS = TLS | {"client_ca": "ca.pem"}
TOKENS = {"tokens": "tokens"}
FAR = "192.0.2.1:7600"


@pytest.fixture(params=[NodeConfig, ProxyConfig])
def model(request: pytest.FixtureRequest) -> Any:
    """A node's settings, and a proxy's."""
    return request.param


def load(model: Any, settings: dict[str, Any]) -> Any:
    needed = {"primary": "192.0.2.9:7600"} if model is ProxyConfig else {}
    return load_settings(model, None, {}, needed | settings)


def grant(identity: str) -> dict[str, Any]:
    return {"identity": identity, "role": "reader"}


@pytest.mark.parametrize(
    "settings",
    [
        {"tls": TLS, "listen": FAR},
        {"tls": MTLS, "listen": FAR},
        {"tls": TLS, "auth": TOKENS, "listen": FAR},
        {"tls": MTLS, "auth": {"grants": [grant("spiffe://x/*"), grant("*")]}},
        {"tls": MTLS, "auth": {**TOKENS, "grants": [grant("token:a"), grant("dns:b")]}},
        {"auth": TOKENS},
        {"auth": {**TOKENS, "grants": [grant("token:*")]}, "listen": "localhost:0"},
        {"insecure": True, "listen": FAR},
    ],
)
def test_settings_that_go_together_are_accepted(model: Any, settings: dict[str, Any]) -> None:
    """Beyond loopback with TLS, or without and said so."""
    assert load(model, settings).listen == settings.get("listen", load(model, {}).listen)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"listen": FAR}, "listen: '192.0.2.1:7600' can be reached from other machines"),
        ({"listen": FAR, "insecure": True, "auth": TOKENS}, "listen: '192.0.2.1:7600' can be"),
        ({"tls": TLS, "insecure": True}, "tls: tls and insecure contradict each other"),
        ({"tls": {"client_ca": "ca.pem"}}, "tls.cert: missing"),
        ({"tls": {"cert": "cert.pem", "client_ca": "ca.pem"}}, "tls.key: missing"),
        ({"tls": {**TLS, "crl": "crl.pem"}}, "tls: crl does nothing without client_ca"),
        ({"auth": {}}, "auth: auth knows callers by"),
        ({"auth": {"grants": [grant("token:a")]}}, "auth: auth knows callers by"),
        ({"tls": TLS, "auth": {"grants": [grant("dns:a")]}}, "auth: auth knows callers by"),
        ({"tls": MTLS, "auth": {"grants": [grant("token:a")]}}, "auth: the grant for 'token:a'"),
        ({"auth": {**TOKENS, "grants": [grant("dns:a")]}}, "auth: the grant for 'dns:a'"),
        ({"auth": {**TOKENS, "grants": []}}, "auth.grants: grants is empty"),
        ({"auth": {**TOKENS, "grants": [grant("engine")]}}, "auth.grants[0].identity: 'engine'"),
        ({"auth": {**TOKENS, "grants": [grant("Token:a")]}}, "auth.grants[0].identity: 'Token:a'"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    model: Any, settings: dict[str, Any], told: str
) -> None:
    """With one line that names the setting; never with less security than was asked for."""
    with pytest.raises(ConfigError) as refused:
        load(model, settings)

    line = str(refused.value).removeprefix("command line: ")
    assert line.startswith(told)
    assert "\n" not in line


def test_every_contradiction_says_what_to_do(model: Any) -> None:
    """Here the one that is met first: a node for others, without TLS."""
    with pytest.raises(ConfigError) as refused:
        load(model, {"listen": FAR})

    assert "set tls" in str(refused.value)
    assert "--insecure" in str(refused.value)


def test_paths_are_paths(model: Any) -> None:
    """Relative ones are those of the process."""
    assert load(model, {"tls": TLS}).tls.cert == Path("cert.pem")
