"""The probes ask what the server answers, where it answers the kubelet."""

import pytest

from tests.chart.builders import ALL, CERTIFICATES, INSECURE
from tests.chart.conftest import Render, Values

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
COMPONENTS = ("node", "storage", "proxy")


@pytest.mark.parametrize("component", COMPONENTS)
def test_only_readiness_waits_for_the_tiers(render: Render, component: str) -> None:
    """A node that is long at finding what it holds, or at draining, lives: nobody restarts it."""
    container = render(INSECURE | ALL).container(component)

    asked = {probe: container[probe]["grpc"]["service"] for probe in PROBES}
    assert asked == {
        "startupProbe": "liveness",
        "readinessProbe": "kvtier.v1.TierService",
        "livenessProbe": "liveness",
    }


@pytest.mark.parametrize("component", COMPONENTS)
def test_without_tls_probes_ask_the_served_port(render: Render, component: str) -> None:
    """There is no port for health alone, which would be one more to protect."""
    port = 17700 if component == "proxy" else 17600
    ports = {"node": 17600, "proxy": 17700, "health": 17601}

    release = render(INSECURE | ALL | {"ports": ports})

    container = release.container(component)
    assert {container[probe]["grpc"]["port"] for probe in PROBES} == {port}
    assert {"name": "grpc", "containerPort": port, "protocol": "TCP"} in container["ports"]
    assert "health" not in {each["name"] for each in container["ports"]}
    assert "health_listen" not in release.config(component)


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize(
    "tls", [CERTIFICATES, {"tls": {"existingSecret": "own", "clientCertificates": False}}], ids=str
)
def test_with_tls_probes_ask_where_there_is_none(
    render: Render, component: str, tls: Values
) -> None:
    """The kubelet's probes speak no TLS, and have no certificate."""
    release = render(tls | ALL | {"ports": {"health": 17601}})

    container = release.container(component)
    assert {container[probe]["grpc"]["port"] for probe in PROBES} == {17601}
    assert {"name": "health", "containerPort": 17601, "protocol": "TCP"} in container["ports"]
    assert "health_listen: 0.0.0.0:17601\n" in release.config(component)
