"""The schema for editors accepts what a server accepts, and refuses what nobody should write."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator

from kvtier.proxy.config import ProxyConfig
from kvtier.server.config import ConfigError, NodeConfig
from kvtier.server.config.effective import as_yaml
from kvtier.server.config.load import gather, load_settings, settle
from kvtier.server.config.schema import schema_of
from kvtier.server.config.sources import Layer, read_file
from kvtier.server.config.values import Settings

TIER = {"name": "cpu0", "medium": "cpu", "capacity": "1MiB"}
SIZES = [0, 536870912, 1e9, "512MB", "512MiB", "0.5GiB", "512 MB", "512 mib", "1e9", " 7TiB", "0"]
NO_SIZES = [-1, 1.5, True, "512m", "512MBx", "-1", "1,5 GiB", "", "64G", [], {}]


@pytest.fixture(name="node", scope="module")
def _node() -> Validator:
    schema = schema_of(NodeConfig)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def accepts(settings: Any, model: type[Settings] = NodeConfig) -> bool:
    """Tell whether a server would start with settings."""
    try:
        load_settings(model, None, {}, settings)
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize("size", SIZES)
def test_a_size_is_what_a_server_reads(node: Validator, size: object) -> None:
    """A number of bytes, or text with a unit."""
    settings = {"tiers": [TIER | {"capacity": size}]}

    assert accepts(settings)
    assert node.is_valid(settings)


@pytest.mark.parametrize("size", NO_SIZES)
def test_what_is_no_size_is_refused_by_both(node: Validator, size: object) -> None:
    """An editor marks it before a server refuses it."""
    settings = {"tiers": [TIER | {"capacity": size}]}

    assert not accepts(settings)
    assert not node.is_valid(settings)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"node_id": None, "limits": None, "tiers": None, "tls": None},
        {"limits": {"hashes": None, "followers": "7", "pin_ttl": "1e3", "message_bytes": "4MiB"}},
        {"events": {"linger": 0, "max_batches": 7.0}},
        {"insecure": "yes", "listen": "0.0.0.0:1", "log_level": "Info"},
        {"insecure": 1, "reflection": False, "tracing": "OFF"},
        {"tiers": [TIER | {"slot_bytes": None, "write_through": [], "shm_dir": "/x"}]},
        {
            "tls": {"cert": "/c", "key": "/k", "client_ca": "/a"},
            "auth": {"grants": [{"identity": "dns:a", "role": "reader", "namespaces": None}]},
        },
    ],
)
def test_all_ways_to_write_a_value_are_known(node: Validator, settings: dict[str, Any]) -> None:
    """Null is for a setting that is not given; numbers may stand in quotes."""
    assert accepts(settings)
    assert list(node.iter_errors(settings)) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"port": 7600},
        {"limits": {"hash": 5}},
        {"limits": {"hashes": 0}},
        {"limits": {"message_bytes": 1}},
        {"limits": {"pin_ttl": "soon"}},
        {"limits": 5},
        {"log_level": "loud"},
        {"insecure": "maybe"},
        {"tiers": "cpu0"},
        {"tiers": [None]},
        {"tiers": [{"name": "cpu0"}]},
        {"tiers": [TIER | {"capacity": None}]},
        {"tiers": [TIER | {"capasity": 1}]},
        {"tiers": [TIER | {"medium": "disk"}]},
        {"tiers": [TIER | {"name": "CPU0"}]},
    ],
)
def test_what_a_server_refuses_alone_is_refused(node: Validator, settings: dict[str, Any]) -> None:
    """Unknown names, and values that no other setting could make right."""
    assert not accepts(settings)
    assert not node.is_valid(settings)


def test_a_proxy_has_a_schema_of_its_own() -> None:
    """It needs a primary, and knows no tiers."""
    proxy = Draft202012Validator(schema_of(ProxyConfig))

    assert proxy.is_valid({"primary": "a:1", "secondaries": None})
    assert not proxy.is_valid({})
    assert not proxy.is_valid({"primary": None})
    assert not proxy.is_valid({"primary": "a:1", "tiers": []})


def test_what_is_shown_is_valid(node: Validator, tmp_path: Any) -> None:
    """A shown configuration, saved to a file, has no mark in an editor."""
    layers = gather(None, {}, {"tiers": [TIER], "node_id": "n"})
    path = tmp_path / "node.yaml"
    path.write_text(as_yaml(settle(NodeConfig, layers), layers))

    layer: Layer = read_file(path)

    assert list(node.iter_errors(layer.settings)) == []


def test_every_setting_says_what_it_means(node: Validator) -> None:
    """An editor shows it beside the value."""
    groups = [node.schema, *node.schema["$defs"].values()]

    silent = [n for g in groups for n, s in g["properties"].items() if not s.get("description")]

    assert silent == []
