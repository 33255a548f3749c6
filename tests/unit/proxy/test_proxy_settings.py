"""A proxy's settings come as a node's do, and are checked before anything starts."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import BaseModel

from kvtier.proxy.config import ProxyConfig, ProxyLimits
from kvtier.proxy.main import command
from kvtier.server.config import ConfigError
from kvtier.server.config.load import load_settings

NODES = {"primary": "127.0.0.1:7600", "secondaries": ["127.0.0.1:7601", "127.0.0.1:7602"]}


def refusal(**settings: object) -> str:
    with pytest.raises(ConfigError) as error:
        load_settings(ProxyConfig, None, {}, {**NODES, **settings})
    message = str(error.value)
    assert "\n" not in message
    return message.removeprefix("command line: ")


@pytest.mark.parametrize("model", [ProxyConfig, ProxyLimits])
def test_every_setting_is_documented(model: type[BaseModel]) -> None:
    """The description is what the error messages show."""
    assert [name for name, f in model.model_fields.items() if not f.description] == []


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"primary": None}, "primary: missing; give it a value. Address of the node"),
        ({"primary": "nowhere"}, "primary: 'nowhere' is not HOST:PORT"),
        ({"primary": "127.0.0.1:0"}, "primary: '127.0.0.1:0' has port 0; write the port that"),
        ({"secondaries": ["127.0.0.1:7601"] * 2}, "secondaries: '127.0.0.1:7601' is listed 2"),
        ({"secondaries": ["a/b:7601"]}, "secondaries: endpoint must be host:port"),
        ({"secondaries": ["a,b:7601"]}, "secondaries: endpoint must be one host:port"),
        (
            {"secondaries": None, "secondaries_dns": "[::1]:7601"},
            "secondaries_dns: name must be a host name",
        ),
        ({"secondaries": ["127.0.0.1:7600"]}, "secondaries: '127.0.0.1:7600' is the primary, too"),
        ({"listen": "0.0.0.0:7700"}, "listen: '0.0.0.0:7700' can be reached from other machines"),
        ({"secondary": ["a:1"]}, "secondary: unknown setting; did you mean secondaries?"),
        ({"quota": 0}, "quota: 0 is refused"),
        ({"limits": {"folowers": 1}}, "limits.folowers: unknown setting; did you mean followers?"),
        ({"events": {"heartbeat_interval": 3}}, "events.heartbeat_interval: 3 is refused"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, object], told: str) -> None:
    """In one line that names the setting, the value and what to do."""
    assert refusal(**settings).startswith(told)


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    """Nodes may come from the file, and the address from a flag."""
    file = tmp_path / "proxy.yaml"
    file.write_text(json.dumps({**NODES, "listen": "127.0.0.1:1", "quota": 3}))

    config = load_settings(
        ProxyConfig, file, {"KVTIER_QUOTA": "5"}, {"listen": "127.0.0.1:7", "secondaries": None}
    )

    assert (config.listen, config.quota) == ("127.0.0.1:7", 5)
    assert config.secondaries == ("127.0.0.1:7601", "127.0.0.1:7602")


def test_a_check_says_what_would_run() -> None:
    """One line of JSON on standard output, and nothing starts."""
    flags = ["--primary", "127.0.0.1:1", "--secondary", "127.0.0.1:2", "--secondary", "[::1]:3"]

    result = CliRunner().invoke(command, [*flags, "--node-id", "p", "--check"], env={})

    assert result.exit_code == 0
    assert json.loads(result.output) == {
        "event": "checked",
        "node_id": "p",
        "listen": "127.0.0.1:7700",
        "primary": "127.0.0.1:1",
        "secondaries": ["127.0.0.1:2", "[::1]:3"],
    }


def test_a_proxy_without_a_node_is_used_wrongly() -> None:
    """The exit code is 2, and the one line says what is missing."""
    result = CliRunner().invoke(command, ["--check"])

    assert result.exit_code == 2
    assert "primary: missing" in result.output
