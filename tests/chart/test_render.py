"""The chart gives valid, hardened manifests for every scenario."""

import copy
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from kvtier.v1 import event_service_pb2, tier_service_pb2, transfer_service_pb2
from kvtier.wire.sizes import parse_size

CHART = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "kvtier"
MINIMAL: dict[str, Any] = {"insecure": True}


@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_scenario_is_valid_for_kubernetes(render: Any, scenario: Any, version: str) -> None:
    """Each rendered object passes the strict schema of the Kubernetes version."""
    manifests = render(scenario)

    for manifest in manifests.values():
        kubernetes_validate.validate(manifest, version, strict=True)

    assert {"DaemonSet", "ConfigMap", "Service/nodes", "Service/local"} <= set(manifests)


@pytest.mark.parametrize("version", ["v1.30.0", "v1.37.0"])
def test_scenario_passes_lint(helm: Any, scenario: Any, version: str) -> None:
    """Helm's own lint has nothing to warn of."""
    report = helm.lint(CHART, scenario, strict=True, kube_version=version)

    assert report["total_charts_linted"] == 1
    assert report["errors"] == []
    assert [m for m in report["messages"] if m["severity"] > 1] == []


def test_unaccepted_plaintext_is_refused(chart: Any) -> None:
    """Without insecure=true nothing is rendered, and the message says what to do."""
    with pytest.raises(Exception, match=r"no TLS and no authentication.*Set insecure=true"):
        chart.render({}, name="prod", namespace="serving")


def test_notes_warn_of_plaintext(chart: Any) -> None:
    """What an installer reads says plainly that whoever reaches the port can do everything."""
    notes = chart.render(MINIMAL, name="prod", namespace="serving")["kvtier/templates/NOTES.txt"]

    assert "no TLS and no authentication" in notes
    assert "daemonset/prod-kvtier 7600" in notes


def test_pod_is_hardened(render: Any, scenario: Any) -> None:
    """The pod meets the restricted pod security standard and has no token."""
    manifests = render(scenario)

    pod = manifests["DaemonSet"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostIPC", "hostPID"} & set(pod)
    if account := manifests.get("ServiceAccount"):
        assert account["automountServiceAccountToken"] is False


def test_services_reach_all_nodes_and_the_local_one(render: Any) -> None:
    """One service is headless and names ready pods only; the other stays on the machine."""
    manifests = render(MINIMAL)

    nodes, local = manifests["Service/nodes"]["spec"], manifests["Service/local"]["spec"]
    labels = manifests["DaemonSet"]["spec"]["template"]["metadata"]["labels"]
    assert nodes["clusterIP"] == "None"
    assert nodes["publishNotReadyAddresses"] is False
    assert local["internalTrafficPolicy"] == "Local"
    for service in (nodes, local):
        assert service["selector"].items() <= labels.items()


def test_names_start_with_the_full_name(render: Any, scenario: Any) -> None:
    """Every object can live beside another release's."""
    manifests = render(scenario)

    prefix = scenario.get("fullnameOverride", "prod-kvtier")
    assert all(m["metadata"]["name"].startswith(prefix) for m in manifests.values())


def test_long_names_stay_within_63_characters(render: Any) -> None:
    """A long override is cut so that the suffixes still fit."""
    manifests = render(MINIMAL | {"fullnameOverride": "n" * 80})

    assert max(len(m["metadata"]["name"]) for m in manifests.values()) <= 63


def test_selector_does_not_change_with_version_or_labels(render: Any) -> None:
    """A DaemonSet's selector is immutable, so an upgrade must leave it alone."""
    plain = render(MINIMAL)

    labelled = render(MINIMAL | {"podLabels": {"team": "serving"}, "image": {"tag": "9.9.9"}})

    selectors = [m["DaemonSet"]["spec"]["selector"] for m in (plain, labelled)]
    assert selectors[0] == selectors[1]
    assert set(selectors[0]["matchLabels"]) == {
        "app.kubernetes.io/name",
        "app.kubernetes.io/instance",
    }


def test_changed_configuration_restarts_pods(render: Any) -> None:
    """The checksum annotation follows the configuration and nothing else."""

    def checksum(values: dict[str, Any]) -> str:
        template = render(values)["DaemonSet"]["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    before = checksum(MINIMAL)

    assert checksum(MINIMAL | {"config": {"log_level": "debug"}}) != before
    assert checksum(MINIMAL | {"podLabels": {"team": "serving"}}) == before


@pytest.mark.parametrize("drain", [0, 10, 42.5, 300])
def test_grace_period_follows_the_drain(render: Any, drain: float) -> None:
    """Kubernetes never kills a pod before its drain can have ended."""
    manifests = render(MINIMAL | {"config": {"drain_timeout": drain}})

    pod = manifests["DaemonSet"]["spec"]["template"]["spec"]
    assert drain + 10 <= pod["terminationGracePeriodSeconds"] <= drain + 20


@pytest.mark.parametrize("sizes", [["0"], ["1GiB"], ["64GiB"], ["80 GB", "1.5TiB"]], ids=str)
def test_startup_has_time_to_open_the_tiers(container: Any, sizes: list[str]) -> None:
    """Kubernetes never kills a pod that is still opening its tiers, at a second for each GiB."""
    tiers = [{"name": f"cpu{i}", "medium": "cpu", "capacity": size} for i, size in enumerate(sizes)]
    needed = sum(map(parse_size, sizes)) / (1 << 30)

    probe = container(MINIMAL | {"config": {"tiers": tiers}})["startupProbe"]

    allowed = probe["periodSeconds"] * probe["failureThreshold"]
    assert needed + 60 <= allowed <= 2 * needed + 65


def test_node_id_is_the_machines_name(container: Any) -> None:
    """A new pod on the same machine keeps the node id."""
    env = {e["name"]: e for e in container(MINIMAL)["env"]}

    source = env["KVTIER_NODE_ID"]["valueFrom"]
    assert source == {"fieldRef": {"fieldPath": "spec.nodeName"}}


def test_probes_ask_services_that_exist(container: Any) -> None:
    """Each probe is native gRPC on the served port and names a service of the API, or none."""
    files = (event_service_pb2, tier_service_pb2, transfer_service_pb2)
    names = {s.full_name for f in files for s in f.DESCRIPTOR.services_by_name.values()} | {""}

    rendered = container(MINIMAL | {"port": 7700})

    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        grpc = rendered[probe]["grpc"]
        assert grpc["port"] == rendered["ports"][0]["containerPort"] == 7700
        assert grpc.get("service", "") in names


def test_shared_memory_is_the_pods_own_or_the_machines(render: Any) -> None:
    """Engines of other pods can map a tier only in a directory of the machine."""

    def shared(values: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        pod = render(MINIMAL | values)["DaemonSet"]["spec"]["template"]["spec"]
        (volume,) = [v for v in pod["volumes"] if v["name"] == "shm"]
        return volume, [m for m in pod["containers"][0]["volumeMounts"] if m["name"] == "shm"]

    own, mounts = shared({})
    machines, same_mounts = shared({"sharedMemory": {"hostPath": "/dev/shm/kvtier"}})

    assert own["emptyDir"]["medium"] == "Memory"
    assert machines == {"name": "shm", "hostPath": {"path": "/dev/shm/kvtier", "type": "Directory"}}
    assert mounts == same_mounts == [{"name": "shm", "mountPath": "/dev/shm"}]


def test_no_number_is_in_scientific_notation(chart: Any, scenario: Any) -> None:
    """Large integers are printed as integers, wherever they appear."""
    values = copy.deepcopy(scenario)
    values["port"] = 65535
    values["memoryOverhead"] = 8 << 40
    values.pop("resources", None)

    rendered = chart.render(values, name="prod", namespace="serving")

    for text in rendered.values():
        assert not re.search(r"\d[eE]\+?\d", re.sub(r"[0-9a-f]{64}", "", text))
