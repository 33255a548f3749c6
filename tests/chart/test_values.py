"""The chart's values: refused when mistyped, equal to the server's configuration otherwise."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kvtier.server import config as server_config
from kvtier.server.config import load_config

Values = dict[str, Any]
NOT_IN_CHART = {"NodeConfig": {"node_id", "listen", "insecure"}, "TierConfig": {"shm_dir"}}


def _tier(**changes: object) -> Values:
    tier = {"name": "cpu0", "medium": "cpu", "capacity": "1GiB"} | changes
    return {"config": {"tiers": [{k: v for k, v in tier.items() if v is not None}]}}


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"insecur": True}, "'insecur'"),
        ({"insecure": "true"}, "/insecure"),
        ({"port": "7600"}, "/port"),
        ({"port": 0}, "/port"),
        ({"port": 7600.5}, "/port"),
        ({"maxUnavailable": 0}, "/maxUnavailable"),
        ({"image": {"tagg": "1"}}, "'tagg'"),
        ({"image": {"repository": ""}}, "/image/repository"),
        ({"image": {"digest": "sha256:beef"}}, "/image/digest"),
        ({"resources": {"limit": {"memory": "1Gi"}}}, "'limit'"),
        ({"resources": {"limits": {"memory": "1GiB"}}}, "/resources/limits/memory"),
        ({"serviceAccount": {"automount": True}}, "'automount'"),
        ({"extraEnv": {"A": "b"}}, "/extraEnv"),
        ({"config": {"tier": []}}, "'tier'"),
        ({"config": {"tiers": []}}, "/config/tiers"),
        ({"config": {"drain_timeout": "10s"}}, "/config/drain_timeout"),
        ({"config": {"limits": {"folowers": 1}}}, "'folowers'"),
        ({"config": {"events": {"linger": -1}}}, "/config/events/linger"),
        ({"config": {"events": {"heartbeat_interval": 2}}}, "/config/events/heartbeat_interval"),
        (_tier(capacity=None), "'capacity'"),
        (_tier(capacity=-1), "/config/tiers/0/capacity"),
        (_tier(capacity="10 GiBs"), "/config/tiers/0/capacity"),
        (_tier(capacity="64G"), "/config/tiers/0/capacity"),
        (_tier(medium="ram"), "/config/tiers/0/medium"),
        (_tier(evict=1), "'evict'"),
        (_tier(device="cuda:0"), "/config/tiers/0/device"),
        (_tier(free_target=0), "on_evict"),
        (_tier(demote_wait=1), "on_evict"),
        (_tier(store_tracker=9), "store_threshold"),
        (_tier(store_tracker=9, store_threshold=1), "/config/tiers/0/store_threshold"),
    ],
    ids=str,
)
def test_mistaken_values_are_refused(chart: Any, values: Values, named: str) -> None:
    """A typo, a wrong type or a number out of range fails early, and the message names it."""
    with pytest.raises(Exception, match=named):
        chart.validate_schema({"insecure": True} | values)


def test_scenario_configures_the_server(render: Any, scenario: Values, tmp_path: Path) -> None:
    """The server reads the rendered file, and it says what the values said."""
    path = tmp_path / "config.yaml"
    path.write_text(render(scenario)["ConfigMap"]["data"]["config.yaml"])

    loaded = load_config(path, {"KVTIER_NODE_ID": "machine-1"}, {})

    assert loaded.node_id == "machine-1"
    assert loaded.listen == "0.0.0.0:7600"
    assert loaded.insecure is True
    wanted = scenario.get("config", {}).get("tiers", [{"name": "cpu0"}])
    assert [t.name for t in loaded.tiers] == [t["name"] for t in wanted]


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [
        (68719476736, 68719476736),
        (5000000, 5000000),
        ("10 GB", 10**10),
        ("10GiB", 10 << 30),
        ("512mib", 512 << 20),
        ("1.5 TiB", 3 << 39),
        ("1e9", 10**9),
        (0, 0),
    ],
)
def test_sizes_mean_the_same_in_chart_and_server(
    render: Any, tmp_path: Path, capacity: object, expected: int
) -> None:
    """A size in the values reaches the server as the same number of bytes."""
    tier = {"name": "cpu0", "medium": "cpu", "capacity": capacity}
    manifests = render({"insecure": True, "config": {"tiers": [tier]}})
    path = tmp_path / "config.yaml"
    path.write_text(manifests["ConfigMap"]["data"]["config.yaml"])

    loaded = load_config(path, {}, {})

    assert loaded.tiers[0].capacity == expected
    volumes = manifests["DaemonSet"]["spec"]["template"]["spec"]["volumes"]
    shm = next(v for v in volumes if v["name"] == "shm")
    assert int(shm["emptyDir"]["sizeLimit"]) == expected + (64 << 20)


def test_large_numbers_arrive_whole_by_file_and_by_set(
    helm: Any, render: Any, tmp_path: Path
) -> None:
    """A byte count of eleven digits is the same number whichever way it is given to Helm."""
    by_file = helm.values_from_yaml(
        "{insecure: true, config: {tiers: [{name: cpu0, medium: cpu, capacity: 68719476736}]}}"
    )
    by_set = helm.parse_set_string(
        "insecure=true,config.tiers[0].name=cpu0,config.tiers[0].medium=cpu,"
        "config.tiers[0].capacity=68719476736"
    )
    path = tmp_path / "config.yaml"

    for values in (by_file, by_set):
        text = render(values)["ConfigMap"]["data"]["config.yaml"]
        path.write_text(text)

        assert "capacity: 68719476736\n" in text
        assert load_config(path, {}, {}).tiers[0].capacity == 68719476736


@pytest.mark.parametrize(
    ("model", "definition"),
    [
        ("NodeConfig", None),
        ("TierConfig", "tier"),
        ("LimitsConfig", "limits"),
        ("EventsConfig", "events"),
    ],
)
def test_schema_knows_every_field_of_the_server(
    chart: Any, model: str, definition: str | None
) -> None:
    """The schema lists exactly the server's fields but those that the chart sets itself."""
    schema = chart.schema if isinstance(chart.schema, dict) else yaml.safe_load(chart.schema)
    part = schema["definitions"][definition] if definition else schema["properties"]["config"]
    fields = getattr(server_config, model).model_fields

    expected = set(fields) - NOT_IN_CHART.get(model, set())

    assert set(part["properties"]) == expected


def test_every_value_is_used_by_a_template(chart: Any) -> None:
    """No value is left in values.yaml that changes nothing."""
    templates = "".join(t["data"] for t in chart.templates)

    unused = [name for name in chart.values if f".Values.{name}" not in templates]

    assert unused == []
