"""Checking a configuration before a node has it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import validate

GOOD = """
node_id: machine-1
tiers:
  - {name: cpu0, medium: cpu, capacity: 1MiB, on_evict: fs0}
  - {name: fs0, medium: fs, capacity: 1GiB, directory: /nowhere/at/all}
"""


def _config(start_cli: Any, *arguments: object, **environment: str) -> tuple[int, str, str]:
    process = start_cli("config", *arguments, **environment)
    out, err = process.communicate(timeout=30)
    return process.returncode, out.decode(), err.decode()


def test_a_good_configuration_is_told_and_nothing_is_started(
    start_cli: Any, tmp_path: Path
) -> None:
    """A line of JSON says what a node would be; no directory is looked for."""
    path = tmp_path / "node.yaml"
    path.write_text(GOOD)

    code, out, err = _config(start_cli, "check", path, KVTIER_LISTEN="127.0.0.1:7777")

    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "event": "checked",
        "node_id": "machine-1",
        "listen": "127.0.0.1:7777",
        "tiers": [{"name": "cpu0", "medium": "cpu"}, {"name": "fs0", "medium": "fs"}],
    }


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("directory: /nowhere/at/all", "directory: here"), "tiers[1].directory: 'here' is not"),
        (("on_evict: fs0", "on_evict: fs9"), "tier cpu0: on_evict names 'fs9'"),
        (("on_evict: fs0", "policy: best"), "tier cpu0: policy is 'best'; there are"),
    ],
    ids=["a path", "a tier", "a policy"],
)
def test_a_wrong_configuration_is_told_in_one_line(
    start_cli: Any, tmp_path: Path, change: tuple[str, str], told: str
) -> None:
    """The exit code is that of a wrong use, as it would be of the node."""
    path = tmp_path / "node.yaml"
    path.write_text(GOOD.replace(*change))

    code, out, err = _config(start_cli, "check", path)

    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert told in err


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_a_shown_configuration_has_every_setting_and_its_origin(
    start_cli: Any, tmp_path: Path, output: str
) -> None:
    """YAML has the origins as comments, JSON beside the settings."""
    path = tmp_path / "node.yaml"
    path.write_text(GOOD)

    code, out, err = _config(
        start_cli, "show", path, "-o", output, KVTIER_EVENTS__MAX_BYTES="512 MB"
    )

    assert (code, err) == (0, "")
    if output == "json":
        told = json.loads(out)
        assert told["settings"]["events"]["max_bytes"] == 512_000_000
        assert told["origins"]["events.max_bytes"] == "KVTIER_EVENTS__MAX_BYTES"
    else:
        assert f"node_id: machine-1  # {path}\n" in out
        assert "  max_bytes: 500000KiB  # KVTIER_EVENTS__MAX_BYTES\n" in out
        assert "listen: '127.0.0.1:7600'  # default\n" in out


def test_a_shown_configuration_can_be_served_with(start_cli: Any, tmp_path: Path) -> None:
    """It is a file like the one that it came from, and an editor that knows the schema agrees."""
    path, whole = tmp_path / "node.yaml", tmp_path / "whole.yaml"
    path.write_text(GOOD)
    _, shown, _ = _config(start_cli, "show", path)
    whole.write_text(shown)

    checked = _config(start_cli, "check", whole)
    _, schema, _ = _config(start_cli, "schema")

    assert checked == _config(start_cli, "check", path)
    validate(yaml.safe_load(shown), json.loads(schema))


def test_a_proxys_configuration_is_checked_and_shown_too(start_cli: Any, tmp_path: Path) -> None:
    """With --proxy; its settings are others than a node's."""
    path = tmp_path / "proxy.yaml"
    path.write_text("primary: node-a:7600\nnode_id: near\n")

    checked = _config(start_cli, "check", "--proxy", path)
    code, shown, err = _config(start_cli, "show", "--proxy", path)
    _, schema, _ = _config(start_cli, "schema", "--proxy")

    assert (checked[0], json.loads(checked[1])["primary"]) == (0, "node-a:7600")
    assert (code, err) == (0, "")
    assert f"primary: 'node-a:7600'  # {path}\n" in shown
    assert "quota: 64  # default\n" in shown
    validate(yaml.safe_load(shown), json.loads(schema))
    assert _config(start_cli, "check", path)[0] == 2


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_what_is_wrong_is_told_in_place_of_what_it_comes_to(
    start_cli: Any, tmp_path: Path, output: str
) -> None:
    """As a check tells it; a URL with a password in it is refused, and not repeated."""
    path = tmp_path / "node.yaml"
    path.write_text(
        "tiers: [{name: obj0, medium: obj, capacity: 1GiB, url: 's3://kv-cache/a',"
        " endpoint: 'http://me:hunter2@store:9000'}]"
    )

    code, out, err = _config(start_cli, "show", path, "-o", output)

    assert (code, out) == (2, "")
    assert "tiers[0].endpoint: the endpoint is not" in err
    assert "hunter2" not in err
