"""Network policies: who reaches which port of the pods, and whom they reach."""

from typing import Any

import pytest

from tests.chart.builders import ALL, CERTIFICATES, INSECURE
from tests.chart.conftest import Release, Render, Values

COMPONENTS = ("node", "storage", "proxy")
OWN = {
    "podSelector": {
        "matchLabels": {
            "app.kubernetes.io/name": "kvtier",
            "app.kubernetes.io/instance": "prod",
        }
    }
}


def _rules(release: Release, component: str) -> dict[str, list[Any]]:
    """Return who may come in, by the name of the port."""
    spec = release.one("NetworkPolicy", component)["spec"]
    return {rule["ports"][0]["port"]: rule["from"] for rule in spec["ingress"]}


@pytest.mark.parametrize("component", COMPONENTS)
def test_by_default_the_namespace_reaches_grpc_and_the_cluster_metrics(
    render: Render, component: str
) -> None:
    """Health without TLS is for the kubelet, which policies do not concern."""
    rules = _rules(render(CERTIFICATES | ALL), component)

    assert rules == {
        "grpc": [OWN, {"podSelector": {}}],
        "metrics": [{"namespaceSelector": {}}],
    }


@pytest.mark.parametrize("component", COMPONENTS)
def test_each_port_is_for_whom_it_is_given(render: Render, component: str) -> None:
    """The release's own pods, the test's among them, are let in at any rate."""
    peers = {
        name: [{"ipBlock": {"cidr": f"10.{number}.0.0/16"}}]
        for number, name in enumerate(("grpc", "metrics", "health"))
    }
    policy = {name: {"from": listed} for name, listed in peers.items()}

    rules = _rules(render(CERTIFICATES | ALL | {"networkPolicy": policy}), component)

    assert rules == peers | {"grpc": [OWN, *peers["grpc"]]}


def test_nobody_is_nobody(render: Render) -> None:
    """An empty list means nobody, though to Kubernetes it would mean everybody."""
    policy: Values = {name: {"from": []} for name in ("grpc", "metrics", "health")}

    rules = _rules(render(CERTIFICATES | {"networkPolicy": policy}), "node")

    assert rules == {"grpc": [OWN]}


def test_a_policy_names_no_port_that_is_not_there(render: Render, scenario: Values) -> None:
    """A rule for the name of a port that the container has not would never match."""
    release = render(scenario)

    for component in release.workloads:
        ports = {port["name"] for port in release.container(component)["ports"]}
        assert set(_rules(release, component)) <= ports


def test_a_policy_is_for_the_components_own_pods(render: Render) -> None:
    """And limits what comes in, until egress is asked for."""
    release = render(INSECURE | ALL)

    for component in COMPONENTS:
        spec = release.one("NetworkPolicy", component)["spec"]
        assert spec["podSelector"] == release.workloads[component]["spec"]["selector"]
        assert spec["policyTypes"] == ["Ingress"]
        assert "egress" not in spec


def test_egress_is_limited_to_what_is_needed(render: Render) -> None:
    """Names, the release's own pods, and what values add."""
    rule = {"to": [{"ipBlock": {"cidr": "10.9.0.0/16"}}], "ports": [{"port": 443}]}
    policy: Values = {"egress": {"enabled": True, "rules": [rule]}}

    spec = render(INSECURE | {"networkPolicy": policy}).one("NetworkPolicy", "node")["spec"]

    dns = [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["egress"] == [{"ports": dns}, {"to": [OWN]}, rule]


def test_policies_can_be_left_to_others(render: Render) -> None:
    """The notes say that there are none."""
    release = render(INSECURE | {"networkPolicy": {"enabled": False}})

    assert release.all("NetworkPolicy") == []
    assert "No network policy" in release.notes
