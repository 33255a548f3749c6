"""What settings come to, and where each value came from."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvtier.proxy.config import ProxyConfig
from kvtier.server.config import NodeConfig
from kvtier.server.config.effective import as_json, as_yaml
from kvtier.server.config.load import gather, load_settings, settle
from kvtier.server.config.values import Settings

FILE = """
node_id: node-1
drain_timeout: null
peers: [node-2:7600]
tiers:
  - {name: gpu0, medium: gpu, capacity: 0.5GiB, on_evict: cpu0, slot_bytes: 1000}
  - {name: cpu0, medium: cpu, capacity: 1e9, write_through: [fs0], store_threshold: 2}
  - {name: fs0, medium: fs, capacity: 3 TiB, directory: /srv/kv, scrub_rate: 0}
limits: {hashes: 7}
"""


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    path = tmp_path / "node.yaml"
    path.write_text(FILE)
    return path


def shown(file: Path | None, env: dict[str, str], **flags: object) -> list[str]:
    layers = gather(file, env, flags)
    return as_yaml(settle(NodeConfig, layers), layers).splitlines()


def test_every_value_tells_where_it_came_from(file: Path) -> None:
    """The place that wins, for each setting alone; a null in the file is not given."""
    env = {"KVTIER_LIMITS__FOLLOWERS": "9", "KVTIER_LISTEN": "127.0.0.1:1"}

    lines = shown(file, env, listen="127.0.0.1:2", insecure=None)

    assert f"node_id: node-1  # {file}" in lines
    assert "listen: '127.0.0.1:2'  # command line" in lines
    assert "drain_timeout: 10.0  # default" in lines
    assert f"peers: ['node-2:7600']  # {file}" in lines
    assert f"  hashes: 7  # {file}" in lines
    assert "  followers: 9  # KVTIER_LIMITS__FOLLOWERS" in lines


def test_a_list_of_tiers_is_from_the_place_that_gives_it(file: Path) -> None:
    """What a tier of the file had is not told of the tier that took its place."""
    tiers = "[{name: cpu9, medium: cpu, capacity: 1MiB}]"

    lines = shown(file, {"KVTIER_TIERS": tiers})

    assert "  - name: cpu9  # KVTIER_TIERS" in lines
    assert "    capacity: 1MiB  # KVTIER_TIERS" in lines
    assert "    slot_bytes: null  # default" in lines
    assert "gpu0" not in "".join(lines)


def test_sizes_are_exact(file: Path) -> None:
    """In the largest unit that has no fraction."""
    lines = shown(file, {})

    assert f"    capacity: 512MiB  # {file}" in lines
    assert f"    capacity: '1000000000'  # {file}" in lines
    assert f"    capacity: 3TiB  # {file}" in lines
    assert "  message_bytes: 16MiB  # default" in lines


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (NodeConfig, ""),
        (NodeConfig, FILE),
        (NodeConfig, "listen: 0.0.0.0:1\ntls: {cert: /c, key: /k}"),
        (ProxyConfig, "primary: a:1"),
        (ProxyConfig, "primary: a:1\nsecondaries: [b:1, '[::1]:2']\nevents: {linger: 0.5}"),
    ],
)
def test_what_is_shown_is_a_configuration_that_comes_to_the_same(
    model: type[Settings], text: str, tmp_path: Path
) -> None:
    """All of it may be given: settings that do nothing for a tier are left out."""
    given, again = tmp_path / "given.yaml", tmp_path / "again.yaml"
    given.write_text(text)
    layers = gather(given, {}, {})
    settings = settle(model, layers)

    again.write_text(as_yaml(settings, layers))

    assert load_settings(model, again, {}, {}) == settings
    named = [n for n in model.model_fields if n not in yaml.safe_load(again.read_text())]
    assert named == []


def test_json_has_bytes_and_the_origins_of_what_was_given(file: Path) -> None:
    """Programs get numbers; what is no origin's is a default."""
    layers = gather(file, {"KVTIER_LOG_LEVEL": "DEBUG"}, {})

    told: dict[str, Any] = json.loads(as_json(settle(NodeConfig, layers), layers))

    settings, origins = told["settings"], told["origins"]
    assert [tier["capacity"] for tier in settings["tiers"]] == [1 << 29, 10**9, 3 << 40]
    assert settings["tiers"][2]["directory"] == "/srv/kv"
    assert (settings["log_level"], origins["log_level"]) == ("debug", "KVTIER_LOG_LEVEL")
    assert origins["tiers[0].capacity"] == str(file)
    assert not {"drain_timeout", "tiers[0].policy", "limits.followers"} & origins.keys()
