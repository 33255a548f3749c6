"""What makes the pods: selectors that stay, updates, placement, and time to start and to end."""

from typing import Any

import pytest

from kvtier.wire.sizes import parse_size
from tests.chart.builders import ALL, CERTIFICATES, INSECURE, memory_tier, node, tiers
from tests.chart.conftest import Render, Values

COMPONENTS = ("node", "storage", "proxy")
EVERY = INSECURE | ALL


def _every(**values: Any) -> Values:
    """Return values of a release with every component, each with these."""
    return INSECURE | {name: {"enabled": True, **values} for name in COMPONENTS}


def test_selectors_do_not_change_with_version_or_labels(render: Render) -> None:
    """A workload's selector is immutable, so an upgrade must leave it alone."""
    plain, changed = (
        render(EVERY),
        render(_every(podLabels={"team": "a"}) | {"image": {"tag": "9"}}),
    )

    for name in COMPONENTS:
        selectors = [r.workloads[name]["spec"]["selector"]["matchLabels"] for r in (plain, changed)]
        assert selectors[0] == selectors[1]
        assert selectors[0] == {
            "app.kubernetes.io/name": "kvtier",
            "app.kubernetes.io/instance": "prod",
            "app.kubernetes.io/component": name,
        }


def test_selectors_choose_the_components_own_pods(render: Render, scenario: Values) -> None:
    """No workload, budget or spread takes the pods of another component for its own."""
    for name, workload in render(scenario).workloads.items():
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert workload["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert labels["app.kubernetes.io/component"] == name


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_changed_configuration_restarts_pods(render: Render, component: str) -> None:
    """The checksum annotation follows the component's configuration and nothing else."""

    def checksum(values: Values) -> str:
        template = render(values).workloads[component]["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    before = checksum(EVERY)

    assert checksum(_every(config={"log_level": "debug"})) != before
    assert checksum(_every(podLabels={"team": "serving"})) == before


@pytest.mark.parametrize("component", ["node", "storage"])
@pytest.mark.parametrize("delay", [0, 2.5])
@pytest.mark.parametrize("timeout", [0, 10, 42.5, 300])
def test_the_grace_period_follows_the_drain(
    render: Render, component: str, delay: float, timeout: float
) -> None:
    """Kubernetes never kills a pod before its drain can have ended."""
    config = {"drain_delay": delay, "drain_timeout": timeout}

    pod = render(EVERY | {component: {"enabled": True, "config": config}}).pods[component]

    assert delay + timeout + 10 <= pod["terminationGracePeriodSeconds"] <= delay + timeout + 20


@pytest.mark.parametrize("sizes", [["0"], ["1GiB"], ["64GiB"], ["80 GB", "1.5TiB"]], ids=str)
def test_a_start_has_time_to_open_the_tiers(render: Render, sizes: list[str]) -> None:
    """Kubernetes never kills a pod that is still opening its tiers, at a second for each GiB."""
    listed = [memory_tier(size, f"cpu{i}") for i, size in enumerate(sizes)]
    needed = sum(map(parse_size, sizes)) / (1 << 30)

    probe = render(tiers(*listed)).container("node")["startupProbe"]

    allowed = probe["periodSeconds"] * probe["failureThreshold"]
    assert needed + 60 <= allowed <= 2 * needed + 65


def test_node_ids_stay(render: Render) -> None:
    """A new pod on the same machine, or with the same volume, keeps the node id."""
    release = render(EVERY)

    def source(component: str) -> str:
        (env,) = (e for e in release.container(component)["env"] if e["name"] == "KVTIER_NODE_ID")
        return str(env["valueFrom"]["fieldRef"]["fieldPath"])

    assert source("node") == "spec.nodeName"
    assert source("storage") == "metadata.name"


def test_budgets_are_for_pods_that_evictions_move(render: Render) -> None:
    """A drain of a machine leaves the pods of a DaemonSet alone, so that they have none."""
    release = render(EVERY | {"networkPolicy": {"enabled": False}})

    budgets = {m["metadata"]["name"]: m["spec"] for m in release.all("PodDisruptionBudget")}
    assert set(budgets) == {"prod-kvtier-storage", "prod-kvtier-proxy"}
    for name, spec in budgets.items():
        component = name.rpartition("-")[2]
        assert spec["maxUnavailable"] == 1
        assert spec["selector"] == release.workloads[component]["spec"]["selector"]


def test_updates_go_on_as_told(render: Render) -> None:
    """Numbers of pods go only with rolling updates, or Kubernetes refuses them."""
    plain = {name: w["spec"] for name, w in render(EVERY).workloads.items()}
    on_delete = _every(updateStrategy={"type": "OnDelete"})
    on_delete["proxy"]["updateStrategy"] = {"type": "Recreate"}

    told = {name: w["spec"] for name, w in render(on_delete).workloads.items()}

    assert plain["node"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 1}
    assert plain["proxy"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert told["node"]["updateStrategy"] == told["storage"]["updateStrategy"]
    assert told["node"]["updateStrategy"] == {"type": "OnDelete"}
    assert told["proxy"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize("component", COMPONENTS)
def test_each_component_goes_where_it_is_told(render: Render, component: str) -> None:
    """Selector, tolerations, affinity, priority and more are the component's own."""
    placement: Values = {
        "nodeSelector": {"role": component},
        "tolerations": [{"key": component, "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": component,
    }
    values = EVERY | {component: {"enabled": True, **placement}}

    release = render(values)

    assert placement.items() <= release.pods[component].items()
    others = [release.pods[name] for name in COMPONENTS if name != component]
    assert all("nodeSelector" not in pod and "tolerations" not in pod for pod in others)


@pytest.mark.parametrize("component", ["storage", "proxy"])
def test_pods_spread_over_machines(render: Render, component: str) -> None:
    """The constraint counts the component's own pods."""
    release = render(EVERY)

    (spread,) = release.pods[component]["topologySpreadConstraints"]

    assert spread["topologyKey"] == "kubernetes.io/hostname"
    assert spread["labelSelector"] == release.workloads[component]["spec"]["selector"]


def test_the_command_is_the_process_itself(render: Render, scenario: Values) -> None:
    """No shell stands between Kubernetes' signals and the process."""
    for name, pod in render(scenario).pods.items():
        for container in pod["containers"]:
            assert container["command"] == ["kvtier"]
            expected = {"node": "serve", "storage": "serve", "proxy": "proxy"}.get(name)
            assert container["args"][0] == expected or name == "test"


def test_services_reach_all_nodes_and_the_local_one(render: Render) -> None:
    """Headless ones name ready pods only; another one stays on the machine."""
    release = render(EVERY)

    def chosen(suffix: str) -> set[str]:
        selector = release.one("Service", suffix)["spec"]["selector"].items()
        labels = {n: w["spec"]["template"]["metadata"]["labels"] for n, w in workloads.items()}
        return {name for name, each in labels.items() if selector <= each.items()}

    workloads = release.workloads
    assert chosen("members") == {"node", "storage"}
    assert chosen("storage") == {"storage"}
    assert chosen("local") == {"node"}
    assert chosen("proxy") == {"proxy"}
    for suffix in ("members", "storage"):
        spec = release.one("Service", suffix)["spec"]
        assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", False)
    assert release.one("Service", "local")["spec"]["internalTrafficPolicy"] == "Local"


def test_services_say_what_they_speak(render: Render) -> None:
    """HTTP/2 in clear text is said so only where it is."""
    insecure, tls = render(EVERY), render(ALL | CERTIFICATES)

    def protocols(services: list[Any]) -> set[Any]:
        return {p.get("appProtocol") for s in services for p in s["spec"]["ports"]}

    assert protocols(insecure.all("Service")) == {"kubernetes.io/h2c"}
    assert protocols(tls.all("Service")) == {None}


def test_variables_and_volumes_are_the_components_own(render: Render) -> None:
    """What one component is given beside the rest no other has."""
    given = node(extraEnv=[{"name": "A", "value": "b"}], podAnnotations={"c": "d"})

    release = render(given | ALL)

    assert {"name": "A", "value": "b"} in release.container("node")["env"]
    assert "env" not in release.container("proxy")
    template = release.workloads["node"]["spec"]["template"]
    assert template["metadata"]["annotations"]["c"] == "d"
