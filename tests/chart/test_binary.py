"""The real binary takes the rendered command lines and configurations, and reads what was meant."""

import json
import subprocess
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kvtier.proxy.config import ProxyConfig
from kvtier.server.config import NodeConfig
from kvtier.server.config.load import load_settings
from tests.chart.builders import INSECURE, memory_tier, tiers
from tests.chart.conftest import Render, Values, scenario_values
from tests.chart.container import KVTIER, NAME, Container, container

SLACK = 64 << 20
MODELS: Mapping[str, type[NodeConfig | ProxyConfig]] = {
    "node": NodeConfig,
    "storage": NodeConfig,
    "proxy": ProxyConfig,
}

Contained = Callable[[Values, str], Container]


@pytest.fixture
def contained(render: Render, tmp_path: Path) -> Contained:
    """Write what a component's container has mounted."""
    numbers = count()
    return lambda values, component: container(
        render(values), component, tmp_path / str(next(numbers))
    )


def _run(command: list[str], env: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def _components() -> list[Any]:
    parts = {"node": True, "storage": False, "proxy": False}
    return [
        pytest.param(values, component, id=f"{name}-{component}")
        for name, values in scenario_values().items()
        for component, by_default in parts.items()
        if values.get(component, {}).get("enabled", by_default)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("values", "component"), _components())
def test_the_rendered_command_accepts_the_rendered_configuration(
    render: Render, contained: Contained, values: Values, component: str
) -> None:
    """As the container would be started, with its secrets, but to check its settings."""
    port = render(values).container(component)["ports"][0]["containerPort"]
    started = contained(values, component)

    done = _run([*started.command, "--check"], started.environment)

    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["event"] == "checked"
    assert told["listen"].endswith(f":{port}")
    assert component == "proxy" or told["node_id"] == NAME


@pytest.mark.parametrize("scenario_name", ["tiers-that-last", "mtls-by-cert-manager"])
def test_the_file_passes_the_check_that_people_run(
    contained: Contained, scenario_name: str
) -> None:
    """`kvtier config check` looks for neither the directories of tiers nor servers."""
    started = contained(scenario_values()[scenario_name], "node")

    done = _run([str(KVTIER), "config", "check", str(started.file)], started.environment)

    assert (done.returncode, done.stderr) == (0, "")


def _loaded(contained: Contained, values: Values, component: str = "node") -> Any:
    started = contained(values, component)
    return load_settings(MODELS[component], started.file, started.env, {})


@pytest.mark.parametrize("component", ["node", "storage"])
def test_what_the_values_say_arrives(contained: Contained, component: str) -> None:
    """Settings of each kind are the server's as they were given."""
    config: Values = {
        "tiers": [memory_tier(68719476736) | {"slot_bytes": 2097152, "events": False}],
        "drain_timeout": 42.5,
        "limits": {"block_bytes": 5000000, "leases_per_owner": 123456789},
        "events": {"linger": 0.005},
        "log_level": "warning",
    }

    loaded = _loaded(
        contained, INSECURE | {component: {"enabled": True, "config": config}}, component
    )

    (tier,) = loaded.tiers
    assert (tier.capacity, tier.slot_bytes, tier.events) == (68719476736, 2097152, False)
    assert (loaded.limits.block_bytes, loaded.limits.leases_per_owner) == (5000000, 123456789)
    assert (loaded.drain_timeout, loaded.events.linger) == (42.5, 0.005)
    assert loaded.log_level == "warning"
    assert loaded.listen == "0.0.0.0:7600"


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [
        (68719476736, 68719476736),
        (5000000, 5000000),
        ("10 GB", 10**10),
        ("10GiB", 10 << 30),
        ("512MB", 512 * 10**6),
        ("512mib", 512 << 20),
        ("0.5GiB", 512 << 20),
        ("536870912", 512 << 20),
        ("1.5 TiB", 3 << 39),
        ("1e9", 10**9),
        (1e9, 10**9),
        (0, 0),
    ],
)
def test_sizes_mean_the_same_in_chart_and_server(
    render: Render, contained: Contained, capacity: object, expected: int
) -> None:
    """A size in the values reaches the server, and the pod, as the same number of bytes."""
    values = tiers(memory_tier(capacity))
    volumes = render(values).pods["node"]["volumes"]

    assert _loaded(contained, values).tiers[0].capacity == expected
    shm = next(volume for volume in volumes if volume["name"] == "shm")
    assert int(shm["emptyDir"]["sizeLimit"]) == expected + SLACK


def test_large_numbers_arrive_whole_by_file_and_by_set(
    helm: Any, render: Render, contained: Contained
) -> None:
    """A byte count of eleven digits is the same number whichever way it is given to Helm."""
    by_file = helm.values_from_yaml(
        "{insecure: true, node: {memoryOverhead: 68719476736, config: {tiers: "
        "[{name: cpu0, medium: cpu, capacity: 68719476736}]}}}"
    )
    by_set = helm.parse_set_string(
        "insecure=true,node.memoryOverhead=68719476736,node.config.tiers[0].name=cpu0,"
        "node.config.tiers[0].medium=cpu,node.config.tiers[0].capacity=68719476736"
    )

    for values in (by_file, by_set):
        release = render(values)

        assert "capacity: 68719476736\n" in release.config("node")
        assert _loaded(contained, values).tiers[0].capacity == 68719476736
        limit = release.container("node")["resources"]["limits"]["memory"]
        assert limit == str(2 * 68719476736 + SLACK)


@pytest.mark.parametrize("component", ["node", "storage"])
def test_each_node_has_a_prefix_of_its_own(
    render: Render, contained: Contained, component: str
) -> None:
    """Its name in a setting is written there by Kubernetes, and wins over the file."""
    obj0: Values = {"name": "obj0", "medium": "obj", "capacity": "1TiB"}
    obj0["url"] = "s3://cache/$(KVTIER_NODE_ID)/obj0"
    config: Values = {"tiers": [memory_tier(68719476736), obj0]}
    values = INSECURE | {component: {"enabled": True, "config": config}}
    # Kubernetes expands only what was named before.
    names = [each["name"] for each in render(values).container(component)["env"]]
    assert names[:2] == ["KVTIER_NODE_ID", "KVTIER_TIERS"]

    loaded = _loaded(contained, values, component)

    assert [tier.url for tier in loaded.tiers] == [None, f"s3://cache/{NAME}/obj0"]
    assert loaded.tiers[0].capacity == 68719476736


def test_the_tiers_stand_in_the_file_alone_where_nodes_have_the_same(render: Render) -> None:
    """No variable hides what the file says."""
    env = render(INSECURE).container("node")["env"]

    assert "KVTIER_TIERS" not in [each["name"] for each in env]
