"""The chart gives objects that Kubernetes takes, by names that fit, for every scenario."""

import copy
import re
from typing import Any

import kubernetes_validate
import pytest

from tests.chart.builders import ALL, CERTIFICATES, INSECURE, node
from tests.chart.conftest import CHART, Manifest, Release, Render, Values, scenario_values

# Kinds that Kubernetes itself does not know.
FOREIGN = {"Certificate", "PodMonitor", "PrometheusRule"}
# Claims stand in the schemas of the versions in which they are served by default.
NEEDS_CLAIMS = "gpu-by-claim"
VERSIONS = ("1.30", "1.34", "1.37")


def _cases() -> list[Any]:
    return [
        pytest.param(values, version, id=f"{name}-{version}")
        for name, values in scenario_values().items()
        for version in VERSIONS
        if not (name == NEEDS_CLAIMS and version == "1.30")
    ]


@pytest.mark.parametrize(("values", "version"), _cases())
def test_objects_are_valid_for_kubernetes(render: Render, values: Values, version: str) -> None:
    """Each rendered object passes the strict schema of the Kubernetes version."""
    release = render(values)

    checked = [m for m in release.manifests if m["kind"] not in FOREIGN]
    for manifest in checked:
        kubernetes_validate.validate(manifest, version, strict=True)

    assert {"ConfigMap", "Pod"} <= {m["kind"] for m in checked}


@pytest.mark.parametrize("version", ["v1.30.0", "v1.37.0"])
def test_scenario_passes_lint(helm: Any, scenario: Values, version: str) -> None:
    """Helm's own lint renders the chart and has nothing to warn of."""
    report = helm.lint(CHART, scenario, strict=True, kube_version=version)

    assert report["total_charts_linted"] == 1
    assert report["errors"] == []
    assert [m for m in report["messages"] if m["severity"] > 1] == []


def test_no_two_objects_have_one_name(render: Render, scenario: Values) -> None:
    """No object replaces another one."""
    names = [(m["kind"], m["metadata"]["name"]) for m in render(scenario).manifests]

    assert len(set(names)) == len(names)


def test_names_start_with_the_full_name(render: Render, scenario: Values) -> None:
    """Every object can live beside another release's."""
    named = scenario.get("nameOverride", "kvtier")
    prefix = scenario.get("fullnameOverride", f"prod-{named}")

    names = [m["metadata"]["name"] for m in render(scenario).manifests]

    assert [name for name in names if not name.startswith(prefix)] == []


def _all_names(release: Release) -> list[str]:
    volumes = [v["name"] for pod in release.pods.values() for v in pod.get("volumes", ())]
    return volumes + [m["metadata"]["name"] for m in release.manifests]


def test_long_names_fit(render: Render) -> None:
    """A long override is cut. Of a StatefulSet's name Kubernetes makes a label, with a hash."""
    release = render(ALL | CERTIFICATES | {"fullnameOverride": "n" * 80, "nameOverride": "m" * 80})

    assert max(map(len, _all_names(release))) <= 63
    assert len(release.workloads["storage"]["metadata"]["name"]) <= 63 - len("-5d4f8c7b96")
    for manifest in release.manifests:
        assert max(map(len, manifest["metadata"]["labels"].values())) <= 63


def test_no_number_is_in_scientific_notation(chart: Any, scenario: Values) -> None:
    """Large integers are printed as integers, wherever they appear."""
    values = copy.deepcopy(scenario)
    values["ports"] = {"node": 65535, "proxy": 65534}
    for component in ("node", "storage", "proxy"):
        part = values.setdefault(component, {})
        part["memoryOverhead"] = 8 << 40
        part.pop("resources", None)
        part.setdefault("config", {}).setdefault("events", {})["max_bytes"] = 68719476736

    rendered = chart.render(values, name="prod", namespace="serving")

    for text in rendered.values():
        assert not re.search(r"\d[eE]\+?\d", re.sub(r"[0-9a-f]{64}", "", text))


def test_every_part_can_be_left_out(render: Render) -> None:
    """A component that is not wanted leaves nothing behind."""
    none: Manifest = {"enabled": False}
    only = {"node": none} | INSECURE | {"serviceAccount": {"create": False}}

    assert render(only).manifests == []
    assert set(render(node()).workloads) == {"node"}
    assert set(render(only | {"storage": {"enabled": True}}).workloads) == {"storage"}
    assert set(render(INSECURE | ALL).workloads) == {"node", "storage", "proxy"}
