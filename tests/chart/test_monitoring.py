"""Metrics, and what Prometheus and Grafana are told of them."""

import json

import yaml

from tests.chart.builders import ALL, INSECURE
from tests.chart.conftest import CHART, Render, Values

LABELS = {"release": "prometheus"}
ON: Values = {"enabled": True, "labels": LABELS}
FILES = CHART / "files"


def _metrics(**values: object) -> Values:
    return INSECURE | ALL | {"metrics": values}


def test_metrics_have_a_port_unless_they_are_off(render: Render) -> None:
    """Without metrics nothing of them is left."""
    on, off = render(_metrics() | {"ports": {"metrics": 19600}}), render(_metrics(enabled=False))

    for component in ("node", "storage", "proxy"):
        assert "metrics_listen: 0.0.0.0:19600\n" in on.config(component)
        port = {"name": "metrics", "containerPort": 19600, "protocol": "TCP"}
        assert port in on.container(component)["ports"]
        assert "metrics" not in off.config(component)
        assert [p["name"] for p in off.container(component)["ports"]] == ["grpc"]
    assert render(_metrics(enabled=False, podMonitor=ON)).all("PodMonitor") == []


def test_kinds_of_the_operator_are_made_on_demand_only(render: Render) -> None:
    """A cluster without the Prometheus operator does not know them."""
    release = render(_metrics())

    assert not release.all("PodMonitor")
    assert not release.all("PrometheusRule")
    labels = [m["metadata"]["labels"] for m in release.all("ConfigMap")]
    assert not any("grafana_dashboard" in each for each in labels)


def test_a_pod_monitor_scrapes_every_component(render: Render) -> None:
    """By the port that the pods name, and with the labels by which Prometheus finds the monitor."""
    release = render(_metrics(podMonitor=ON | {"interval": "15s"}))

    monitor = release.one("PodMonitor", "pods")
    assert monitor["apiVersion"] == "monitoring.coreos.com/v1"
    assert LABELS.items() <= monitor["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint == {"port": "metrics", "path": "/metrics", "interval": "15s"}
    chosen = monitor["spec"]["selector"]["matchLabels"].items()
    for workload in release.workloads.values():
        assert chosen <= workload["spec"]["template"]["metadata"]["labels"].items()


def test_rules_are_those_of_the_files(render: Render) -> None:
    """As they are: the braces in them are Prometheus's and not Helm's."""
    release = render(_metrics(prometheusRule=ON))

    rules = {m["metadata"]["name"]: m for m in release.all("PrometheusRule")}
    assert set(rules) == {"prod-kvtier-recording", "prod-kvtier-alerts"}
    for name, rule in rules.items():
        file = FILES / f"{name.rpartition('-')[2]}.yaml"
        assert rule["spec"] == yaml.safe_load(file.read_text())
        assert set(rule["spec"]) == {"groups"}
        assert LABELS.items() <= rule["metadata"]["labels"].items()


def test_the_dashboard_is_found_by_grafana(render: Render) -> None:
    """It is the file, in a config map with the label that the sidecar looks for."""
    dashboard: Values = {"enabled": True, "annotations": {"grafana_folder": "Serving"}}

    found = render(_metrics(dashboard=dashboard)).one("ConfigMap", "dashboard")

    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["metadata"]["annotations"] == {"grafana_folder": "Serving"}
    text = found["data"]["kvtier.json"]
    assert json.loads(text) == json.loads((FILES / "dashboard.json").read_text())
