"""Mistaken values are refused before anything is rendered."""

import json
from typing import Any

import pytest

from kvtier.proxy.config import ProxyConfig
from kvtier.server import config as server_config
from kvtier.server.config.security import GrantConfig
from tests.chart.builders import INSECURE, memory_tier, node, tiers
from tests.chart.conftest import CHART, Values
from tools.pages.chart.config_schema import OF_THE_CHART

DIGEST = "sha256:beef"


def _tier(**changes: object) -> Values:
    tier = memory_tier("1GiB") | changes
    return tiers({k: v for k, v in tier.items() if v is not None})


def _top(**values: Any) -> Values:
    return INSECURE | values


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (_top(insecur=True), "'insecur'"),
        (_top(insecure="true"), "/insecure"),
        (_top(config={}), "'config'"),
        (_top(ports={"node": "7600"}), "/ports/node"),
        (_top(ports={"node": 0}), "/ports/node"),
        (_top(ports={"node": 7600.5}), "/ports/node"),
        (_top(ports={"grpc": 7600}), "'grpc'"),
        (_top(listenAddress="all"), "/listenAddress"),
        (_top(image={"tagg": "1"}), "'tagg'"),
        (_top(image={"repository": ""}), "/image/repository"),
        (_top(image={"digest": DIGEST}), "/image/digest"),
        (_top(image={"pullPolicy": "always"}), "/image/pullPolicy"),
        (_top(serviceAccount={"automount": True}), "'automount'"),
        (_top(tls={"certManager": {"issuer": "ca"}}), "'issuer'"),
        (_top(tls={"certManager": {"duration": "90d"}}), "/tls/certManager/duration"),
        (_top(tls={"existingSecret": "Not A Name"}), "/tls/existingSecret"),
        (_top(auth={"tokens": "file"}), "/auth/tokens"),
        (_top(auth={"grants": [{"identity": "dns:a"}]}), "'role'"),
        (_top(auth={"grants": [{"identity": "dns:a", "role": "root"}]}), "/auth/grants/0/role"),
        (_top(metrics={"podMonitor": {"interval": 30}}), "/metrics/podMonitor/interval"),
        (_top(networkPolicy={"grpc": {"from": [{}]}}), "/networkPolicy/grpc/from/0"),
        (_top(networkPolicy={"grpc": {"from": [{"podselector": {}}]}}), "'podselector'"),
        (_top(networkPolicy={"egress": {"rules": [{"from": []}]}}), "'from'"),
        (_top(storage={"replicas": "3"}), "/storage/replicas"),
        (_top(storage={"persistence": {"size": "100GiB"}}), "/storage/persistence/size"),
        (_top(storage={"persistence": {"whenDeleted": "Keep"}}), "/whenDeleted"),
        (_top(storage={"sharedMemory": {"hostPath": "/dev/shm"}}), "'sharedMemory'"),
        (_top(storage={"podDisruptionBudget": {"maxUnavailable": 0}}), "/maxUnavailable"),
        (_top(proxy={"config": {"tiers": []}}), "'tiers'"),
        (_top(proxy={"config": {"limits": {"catch_ups": 65}}}), "/proxy/config/limits/catch_ups"),
        (_top(proxy={"updateStrategy": {"type": "OnDelete"}}), "/proxy/updateStrategy/type"),
        (node(updateStrategy={"type": "Recreate"}), "/node/updateStrategy/type"),
        (node(updateStrategy={"rollingUpdate": {"partition": 1}}), "'partition'"),
        (node(replicas=2), "'replicas'"),
        (node(resources={"limit": {"memory": "1Gi"}}), "'limit'"),
        (node(resources={"limits": {"memory": "1GiB"}}), "/node/resources/limits/memory"),
        (node(resourceClaims=[{"name": "gpu", "claim": "a"}]), "'claim'"),
        (node(memoryOverhead="1Gi"), "/node/memoryOverhead"),
        (node(sharedMemory={"hostPath": "dev/shm"}), "/node/sharedMemory/hostPath"),
        (node(extraEnv={"A": "b"}), "/node/extraEnv"),
        (node(extraEnv=[{"name": "A", "value": 5}]), "/node/extraEnv/0/value"),
        (node(extraVolumes=[{"emptyDir": {}}]), "'name'"),
        (node(extraVolumeMounts=[{"name": "a", "mountPath": "a"}]), "/node/extraVolumeMounts/0"),
        (node(extraVolumeMounts=[{"name": "a", "path": "/a"}]), "'path'"),
        (node(tolerations=[{"kye": "a"}]), "'kye'"),
        (node(affinity={"podaffinity": {}}), "'podaffinity'"),
        (node(podLabels={"a": 1}), "/node/podLabels/a"),
        (node(config={"tier": []}), "'tier'"),
        (node(config={"listen": "0.0.0.0:1"}), "'listen'"),
        (node(config={"tiers": []}), "/node/config/tiers"),
        (node(config={"drain_timeout": "10s"}), "/node/config/drain_timeout"),
        (node(config={"drain_delay": -1}), "/node/config/drain_delay"),
        (node(config={"limits": {"folowers": 1}}), "'folowers'"),
        (node(config={"limits": {"hashes": 0}}), "/node/config/limits/hashes"),
        (node(config={"events": {"linger": -1}}), "/node/config/events/linger"),
        (node(config={"events": {"heartbeat_interval": 2}}), "/events/heartbeat_interval"),
        (_tier(capacity=None), "'capacity'"),
        (_tier(capacity=-1), "/node/config/tiers/0/capacity"),
        (_tier(capacity="10 GiBs"), "/node/config/tiers/0/capacity"),
        (_tier(capacity="64G"), "/node/config/tiers/0/capacity"),
        (_tier(capacity="512m"), "/node/config/tiers/0/capacity"),
        (_tier(capacity="512MBx"), "/node/config/tiers/0/capacity"),
        (_tier(medium="ram"), "/node/config/tiers/0/medium"),
        (_tier(evict=1), "'evict'"),
        (_tier(shm_dir="/dev/shm"), "'shm_dir'"),
        (_tier(device="cuda:0"), "/node/config/tiers/0/device"),
        (_tier(free_target=0), "on_evict"),
        (_tier(demote_wait=1), "on_evict"),
        (_tier(store_tracker=9), "store_threshold"),
        (_tier(store_tracker=9, store_threshold=1), "/node/config/tiers/0/store_threshold"),
        (_tier(directory="/data"), "/node/config/tiers/0/directory"),
        (_tier(scrub_rate=0), "/node/config/tiers/0/scrub_rate"),
        (_tier(medium="gpu", url="s3://cache/a"), "/node/config/tiers/0/url"),
        (_tier(medium="fs"), "'directory'"),
        (_tier(medium="fs", directory="data"), "/node/config/tiers/0/directory"),
        (_tier(medium="fs", directory="/data", sync="often"), "/node/config/tiers/0/sync"),
        (_tier(medium="fs", directory="/data", slot_bytes=1), "/node/config/tiers/0/slot_bytes"),
        (_tier(medium="fs", directory="/data", io_threads=0), "/node/config/tiers/0/io_threads"),
        (_tier(medium="obj"), "'url'"),
        (_tier(medium="obj", url="s3://cache"), "/node/config/tiers/0/url"),
        (_tier(medium="obj", url="s3://cache/a", sync="none"), "/node/config/tiers/0/sync"),
        (
            _tier(medium="obj", url="s3://cache/a", endpoint="http://key:secret@minio"),
            "/node/config/tiers/0/endpoint",
        ),
    ],
    ids=str,
)
def test_mistaken_values_are_refused(chart: Any, values: Values, named: str) -> None:
    """A typo, a wrong type or a number out of range fails early, and the message names it."""
    with pytest.raises(Exception, match=named):
        chart.validate_schema(values)


def _objects(schema: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Return every object of a schema that names its properties, with where it stands."""
    if isinstance(schema, list):
        return [found for each in schema for found in _objects(each, path)]
    if not isinstance(schema, dict):
        return []
    here = [(path, schema)] if schema.get("type") == "object" and "properties" in schema else []
    return here + [f for key, value in schema.items() for f in _objects(value, f"{path}/{key}")]


def test_no_object_takes_names_that_it_does_not_know() -> None:
    """But for volumes, of which there are many kinds, and amounts of resources."""
    schema = json.loads((CHART / "values.schema.json").read_text())

    loose = {path for path, each in _objects(schema) if each.get("additionalProperties", True)}

    assert loose == {
        "/definitions/volume",
        "/definitions/resources/properties/requests",
        "/definitions/resources/properties/limits",
    }


@pytest.mark.parametrize(
    "model",
    [
        server_config.NodeConfig,
        server_config.TierConfig,
        server_config.LimitsConfig,
        server_config.EventsConfig,
        GrantConfig,
        ProxyConfig,
    ],
)
def test_the_schema_knows_every_setting(model: Any) -> None:
    """Exactly those of the models, but what the chart makes of its other values."""
    schema = json.loads((CHART / "values.schema.json").read_text())

    expected = set(model.model_fields) - OF_THE_CHART.get(model.__name__, set())

    assert set(schema["definitions"][model.__name__]["properties"]) == expected


def test_another_chart_may_have_this_one_as_a_part(chart: Any) -> None:
    """Helm hands `global` to every part."""
    chart.validate_schema(INSECURE | {"global": {"region": "eu"}})
