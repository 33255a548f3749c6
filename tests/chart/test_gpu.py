"""The ways in which a node comes to a GPU; none takes one from an engine unasked."""

import re

import kubernetes_validate
import pytest
import yaml

from kvtier.server.config import load_config
from kvtier.wire.sizes import parse_size
from tests.chart.builders import INSECURE
from tests.chart.conftest import CHART, Manifest, Render, scenario_values

README = CHART / "README.md"


def test_by_default_no_gpu_is_asked_for(render: Render) -> None:
    """A GPU as a resource would be gone for the engine."""
    pod = render(INSECURE).pods["node"]

    assert not {"runtimeClassName", "resourceClaims"} & set(pod)
    resources = pod["containers"][0]["resources"]
    assert set(resources) == {"limits", "requests"}
    assert set(resources["limits"]) == {"memory"}


def test_a_runtime_class_shows_gpus_unaccounted(render: Render) -> None:
    """With the variable that says which; Kubernetes counts none."""
    pod = render(scenario_values()["gpu-by-runtime-class"]).pods["node"]

    (container,) = pod["containers"]
    assert pod["runtimeClassName"] == "nvidia"
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in container["env"]
    assert set(container["resources"]["limits"]) == {"memory"}


def test_a_shared_gpu_is_a_resource(render: Render) -> None:
    """Extended resources are limits, next to the memory that the chart works out."""
    (container,) = render(scenario_values()["gpu-shared"]).pods["node"]["containers"]

    assert container["resources"]["limits"]["nvidia.com/gpu.shared"] == 1
    assert set(container["resources"]["limits"]) == {"memory", "nvidia.com/gpu.shared"}


def test_a_claim_is_of_the_pod_and_named_by_the_container(render: Render) -> None:
    """So that an engine can name the same one."""
    pod = render(scenario_values()["gpu-by-claim"]).pods["node"]

    assert pod["resourceClaims"] == [{"name": "gpu", "resourceClaimName": "engines-gpu"}]
    assert pod["containers"][0]["resources"]["claims"] == [{"name": "gpu"}]


def test_nodes_beside_engines_are_none_of_the_release(render: Render) -> None:
    """Its proxies follow them by the engines' own names."""
    release = render(scenario_values()["gpu-sidecar"])

    assert set(release.workloads) == {"proxy"}
    assert "secondaries_dns: engines.serving.svc:7600\n" in release.config("proxy")


@pytest.fixture(name="sidecar")
def _sidecar() -> Manifest:
    """The pod in the chart's README that has a node beside an engine."""
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)
    pod: Manifest = yaml.safe_load(block)
    return pod


def test_the_sidecar_of_the_readme_is_valid(sidecar: Manifest) -> None:
    """As Kubernetes reads it, with one claim for both containers and memory that both see."""
    kubernetes_validate.validate(sidecar, "1.37", strict=True)

    containers = [*sidecar["spec"]["initContainers"], *sidecar["spec"]["containers"]]
    for part in ("volumeMounts", "resources"):
        first, second = (container[part] for container in containers)
        assert first == second or first["claims"] == second["claims"]


def test_the_sidecar_of_the_readme_is_configured(sidecar: Manifest) -> None:
    """Its variables are settings of the node, and its tiers fit its memory."""
    (node,) = sidecar["spec"]["initContainers"]
    (shm,) = sidecar["spec"]["volumes"]

    config = load_config(None, {e["name"]: e.get("value", "engine-0") for e in node["env"]}, {})

    assert [tier.medium for tier in config.tiers] == ["gpu", "cpu"]
    room = parse_size(shm["emptyDir"]["sizeLimit"] + "B")
    assert sum(t.capacity + config.spare_bytes(t) for t in config.tiers[1:]) <= room
    assert room < parse_size(node["resources"]["limits"]["memory"] + "B")
