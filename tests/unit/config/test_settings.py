"""Every setting is checked, and a refusal names the setting, the value and what to do."""

import socket
from typing import Any

import pytest
from pydantic import BaseModel

from kvtier.server.config import (
    ConfigError,
    EventsConfig,
    LimitsConfig,
    NodeConfig,
    TierConfig,
    load_config,
)


def tier(**settings: object) -> dict[str, object]:
    return {"name": "cpu0", "medium": "cpu", "capacity": "1MiB", **settings}


def refusal(**settings: object) -> str:
    with pytest.raises(ConfigError) as error:
        load_config(None, {}, settings)
    message = str(error.value)
    assert "\n" not in message
    return message.removeprefix("command line: ")


@pytest.mark.parametrize("model", [NodeConfig, TierConfig, LimitsConfig, EventsConfig])
def test_every_setting_is_documented(model: type[BaseModel]) -> None:
    """The description is what the reference and the error messages show."""
    undocumented = [n for n, f in model.model_fields.items() if not f.description]

    assert undocumented == []


@pytest.mark.parametrize(
    ("capacity", "size"),
    [(0, 0), ("0", 0), ("10 GB", 10**10), ("10GiB", 10 << 30), (1e9, 10**9), ("1e9", 10**9)],
)
def test_a_capacity_is_read_as_a_size(capacity: object, size: int) -> None:
    """0 is allowed: a tier that holds nothing. A float is allowed when it is a whole number."""
    config = load_config(None, {}, {"tiers": [tier(capacity=capacity)]})

    assert config.tiers[0].capacity == size


@pytest.mark.parametrize(
    ("capacity", "told"),
    [
        (-1, "-1 is negative; a size is 0 or more"),
        ("512MBx", "'512MBx' is not a size; write bytes, or a number with"),
        (1.5, "1.5 is not a whole number of bytes"),
        (True, "True is not a size"),
        ([], "[] is not a size"),
    ],
)
def test_a_capacity_that_is_no_size_is_refused(capacity: object, told: str) -> None:
    """The tier's place and the value are named."""
    assert refusal(tiers=[tier(capacity=capacity)]).startswith(f"tiers[0].capacity: {told}")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"name": "CPU0"}, "tiers[0].name: 'CPU0' is refused. The tier's name"),
        ({"name": "a" * 64}, "tiers[0].name: 'aaaa"),
        ({"name": "../x"}, "tiers[0].name: '../x' is refused"),
        ({"name": "cpu0\n"}, "tiers[0].name: 'cpu0\\n' is refused"),
        ({"name": ""}, "tiers[0].name: '' is refused"),
        (
            {"medium": "disk"},
            "tiers[0].medium: 'disk' is refused: it should be 'gpu', 'cpu', 'fs' or 'obj'",
        ),
        ({"device": "auto"}, "tiers[0]: device is for gpu tiers only; remove it"),
        ({"medium": "gpu", "shm_dir": "/x"}, "tiers[0]: shm_dir is for cpu tiers only; remove it"),
        ({"demote_wait": 1}, "tiers[0]: demote_wait does nothing here; remove it, or set on_evict"),
        ({"free_target": 0}, "tiers[0]: free_target does nothing here; remove it, or set on_evict"),
        (
            {"store_tracker": 9, "store_threshold": 1},
            "tiers[0]: store_tracker does nothing here; remove it, or set store_threshold to 2",
        ),
        ({"medium": "gpu", "device": "cuda"}, "tiers[0].device: 'cuda' is refused"),
        ({"shm_dir": "shm"}, "tiers[0].shm_dir: 'shm' is not an absolute path; write one"),
        ({"slot_bytes": 0}, "tiers[0].slot_bytes: 0 is refused: it should be greater"),
        ({"slot_bytes": "2MiB"}, "tiers[0]: capacity 1 MiB is less than one slot of 2 MiB"),
        ({"slots": 1}, "tiers[0].slots: unknown setting; did you mean slot_bytes?"),
        ({"capasity": 1}, "tiers[0].capasity: unknown setting; did you mean capacity?"),
        ({"x": 1}, "tiers[0].x: unknown setting; there are name, medium, capacity,"),
        ({1: 1}, "tiers[0][1]: unknown setting; there are name"),
        ({"capacity": None}, "tiers[0].capacity: missing; give it a value. Bytes for blocks"),
        ({"events": "maybe"}, "tiers[0].events: 'maybe' is refused: write true or false."),
    ],
)
def test_a_wrong_tier_is_refused(settings: dict[Any, Any], told: str) -> None:
    """Each message begins with the place of the tier and the setting."""
    assert refusal(
        tiers=[tier(**settings)] if 1 not in settings else [tier() | settings]
    ).startswith(told)


def test_tiers_are_one_to_sixteen_with_names_of_their_own() -> None:
    """Two stores would otherwise want one file, and a name would not say which."""
    tiers = [tier(name=f"cpu{i}") for i in range(17)]

    assert len(load_config(None, {}, {"tiers": tiers[:16]}).tiers) == 16
    assert refusal(tiers=tiers) == "tiers: there are 17 tiers; a node has 1 to 16"
    assert refusal(tiers=[]) == "tiers: there are 0 tiers; a node has 1 to 16"
    assert refusal(tiers=[tier(), tier()]).startswith("tiers: 2 tiers are named 'cpu0'; give each")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"node_id": "a_b"}, "node_id: 'a_b' is refused. The node's stable id"),
        ({"node_id": "n" * 254}, "node_id: 'nnnn"),
        ({"node_id": 7}, "node_id: 7 is refused: write text, in quotes"),
        ({"log_level": "loud"}, "log_level: 'loud' is refused: it should be 'debug',"),
        ({"drain_timeout": -1}, "drain_timeout: -1 is refused: it should be greater"),
        ({"drain_timeout": "5s"}, "drain_timeout: '5s' is refused: it should be a valid number"),
        ({"limits": {"hashes": 0}}, "limits.hashes: 0 is refused: it should be greater"),
        ({"limits": {"hashes": True}}, "limits.hashes: True is not a number; write one"),
        ({"limits": {"lease_ttl_max": 301}}, "limits.lease_ttl_max: 301 is refused"),
        ({"limits": {"message_bytes": "4095KiB"}}, "limits.message_bytes: '4095KiB' is refused"),
        ({"limits": {"namespaces": 4097}}, "limits.namespaces: 4097 is refused"),
        ({"limits": {"leased_bytes_per_owner": 0}}, "limits.leased_bytes_per_owner: 0 is refused"),
        ({"limits": {"block_bytes": "2GiB"}}, "limits.block_bytes: '2GiB' is refused"),
        ({"events": {"heartbeat_interval": 1.5}}, "events.heartbeat_interval: 1.5 is refused"),
        ({"events": {"linger": float("nan")}}, "events.linger: nan is refused"),
        ({"events": {"message_bytes": "5MiB"}}, "events.message_bytes: '5MiB' is refused"),
        ({"limits": 5}, "limits: 5 is refused: write settings by name"),
        ({"limits": {"hash": 5}}, "limits.hash: unknown setting; did you mean hashes?"),
        ({"port": 7600}, "port: unknown setting; there are node_id, insecure, tls,"),
        ({"tiers": "cpu0"}, "tiers: 'cpu0' is refused: write a list."),
        ({"tiers": ["cpu0"]}, "tiers[0]: 'cpu0' is refused: write settings by name"),
    ],
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any], told: str) -> None:
    """Unknown keys are refused by name, values by what they should be."""
    assert refusal(**settings).startswith(told)


def test_a_host_name_that_is_no_node_id_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default is checked like any value."""
    monkeypatch.setattr(socket, "gethostname", lambda: "my_host")

    with pytest.raises(ConfigError, match=r"^node_id: 'my_host' is refused\."):
        load_config(None, {}, {})


def test_further_errors_are_counted() -> None:
    """One line tells the first, and that there are more."""
    assert refusal(drain_timeout=-1, log_level="x").endswith("(and 1 more)")


@pytest.mark.parametrize(
    "listen",
    [
        "127.0.0.1:0",
        "127.8.9.10:7600",
        "localhost:7600",
        "LocalHost:1",
        "[::1]:7600",
        "[::ffff:127.0.0.1]:1",
    ],
)
def test_loopback_needs_no_consent(listen: str) -> None:
    """All of 127.0.0.0/8, ::1 and localhost."""
    assert load_config(None, {}, {"listen": listen}).listen == listen


@pytest.mark.parametrize(
    "listen",
    [
        "0.0.0.0:7600",
        "[::]:7600",
        "10.0.0.1:1",
        "node-1:7600",
        "[fe80::1]:1",
        "localhost.example:1",
        "128.0.0.1:1",
    ],
)
def test_beyond_loopback_needs_the_word_insecure(listen: str) -> None:
    """There is no TLS yet, so the operator must say that this is known."""
    told = refusal(listen=listen)

    assert told.startswith(f"listen: '{listen}' can be reached from other machines")
    assert "--insecure" in told
    assert load_config(None, {}, {"listen": listen, "insecure": True}).listen == listen


@pytest.mark.parametrize(
    "listen",
    [
        "",
        "7600",
        ":7600",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:x",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "[]:1",
        "::1",
        "::1:7600",
        "a:b:1",
    ],
)
def test_what_is_no_host_and_port_is_refused(listen: str) -> None:
    """Also with consent; an IPv6 address without brackets is ambiguous."""
    told = refusal(listen=listen, insecure=True)

    assert told.startswith(f"listen: '{listen}' is ")
    assert "; write " in told


def test_peers_are_addresses_in_the_order_given() -> None:
    """An IPv6 address stands in brackets, and a list in the environment is YAML."""
    config = load_config(None, {"KVTIER_PEERS": "[node-2:7600, '[::1]:7601']"}, {})

    assert config.peers == ("node-2:7600", "[::1]:7601")
    assert load_config(None, {}, {}).peers == ()


@pytest.mark.parametrize(
    ("peers", "why"),
    [
        (["node-2"], "'node-2' is not HOST:PORT"),
        (["::1:7600"], "brackets"),
        (["node-2:0"], "port 0"),
        (["a:1", "b:1", "a:1"], "'a:1' is listed 2 times"),
        (["http://node-2:7600"], "ambiguous"),
        ("node-2:7600", "write a list"),
        ([7600], "write text"),
    ],
)
def test_peers_that_are_no_addresses_are_refused(peers: object, why: str) -> None:
    """What is wrong is told with the value, at the start and not at the first pull."""
    told = refusal(peers=peers)

    assert told.startswith("peers")
    assert why in told


@pytest.mark.parametrize("setting", [{"peer_timeout": 0}, {"peer_pause": -1}])
def test_times_for_peers_have_bounds(setting: dict[str, object]) -> None:
    """A peer is always given some time, and never less than none."""
    assert refusal(**setting).startswith(next(iter(setting)))
