"""The pod gets the memory that its tiers need, or is not rendered at all."""

from typing import Any

import pytest

from tests.chart.builders import ALL, INSECURE, file_tier, memory_tier, node, tiers
from tests.chart.conftest import Release, Render, Values

GIB = 1 << 30
SLACK = 64 << 20
# Where there are several tiers, their blocks may change places.
SPARE = 16 << 20


def _volume(release: Release, component: str = "node") -> Any:
    return next(v for v in release.pods[component]["volumes"] if v["name"] == "shm")


def _shm_bytes(release: Release, component: str = "node") -> int:
    volume = _volume(release, component)
    assert volume["emptyDir"]["medium"] == "Memory"
    return int(volume["emptyDir"]["sizeLimit"])


def _limit(release: Release, component: str = "node") -> int:
    return int(release.container(component)["resources"]["limits"]["memory"])


@pytest.mark.parametrize("capacity", [8 * GIB, "8GiB", "8 GiB", "8gib", str(8 * GIB)])
@pytest.mark.parametrize("component", ["node", "storage"])
def test_shared_memory_holds_the_host_tier(
    render: Render, component: str, capacity: object
) -> None:
    """/dev/shm is larger than the tier and the memory limit is larger than /dev/shm."""
    config = {"tiers": [memory_tier(capacity)]}

    release = render(INSECURE | {component: {"enabled": True, "config": config}})

    shm = _shm_bytes(release, component)
    assert shm == 8 * GIB + SLACK
    assert _limit(release, component) == shm + GIB
    mounts = {m["name"]: m["mountPath"] for m in release.container(component)["volumeMounts"]}
    assert mounts["shm"] == "/dev/shm"


def test_several_host_tiers_add_up(render: Render) -> None:
    """Decimal and binary units, and bare numbers, are summed in bytes."""
    release = render(tiers(memory_tier("1TB"), memory_tier(5_000_000, "cpu1")))

    assert _shm_bytes(release) == 10**12 + 5_000_000 + 2 * SPARE + SLACK


@pytest.mark.parametrize(
    ("device", "counted"), [(None, True), ("auto", True), ("emulated", True), ("cuda:0", False)]
)
def test_a_gpu_tier_counts_unless_a_device_is_named(
    render: Render, device: str | None, counted: bool
) -> None:
    """A GPU tier that may be emulated in host memory counts towards the limit."""
    tier: Values = {"name": "gpu0", "medium": "gpu", "capacity": "4GiB"}

    release = render(tiers(tier | ({"device": device} if device else {})))

    assert _limit(release) == SLACK + GIB + (4 * GIB if counted else 0)


@pytest.mark.parametrize("component", ["node", "storage"])
@pytest.mark.parametrize("limit", ["9Gi", 9 * GIB, "9216Mi", "0.0087890625Ti"])
def test_a_too_small_limit_is_refused(chart: Any, component: str, limit: object) -> None:
    """A limit under what tiers, slack and overhead need names both numbers."""
    part = {
        "enabled": True,
        "config": {"tiers": [memory_tier("8GiB")]},
        "resources": {"limits": {"memory": limit}},
    }

    with pytest.raises(Exception, match=rf"{component}.*{9 * GIB} bytes.* need {9 * GIB + SLACK}"):
        chart.render(INSECURE | {component: part}, name="prod", namespace="serving")


def test_a_proxy_gets_what_it_is_said_to_need(chart: Any, render: Render) -> None:
    """It has no tiers; a limit below its overhead is refused like a node's."""
    proxy: Values = {"enabled": True, "memoryOverhead": "3GiB"}

    assert _limit(render(INSECURE | {"proxy": proxy})) == GIB + GIB + SLACK
    assert _limit(render(INSECURE | {"proxy": proxy}), "proxy") == 3 * GIB
    with pytest.raises(Exception, match=rf"proxy.* need {3 * GIB}"):
        chart.render(INSECURE | {"proxy": proxy | {"resources": {"limits": {"memory": "2Gi"}}}})


def test_a_larger_limit_is_kept(render: Render) -> None:
    """A sufficient limit is used as it is, and a given request too."""
    given = {"requests": {"memory": "10Gi"}, "limits": {"memory": "12Gi", "cpu": 4}}

    resources = render(tiers(memory_tier("8GiB"), resources=given)).container("node")["resources"]

    assert resources["limits"] == {"memory": str(12 * GIB), "cpu": 4}
    assert resources["requests"] == {"memory": "10Gi", "cpu": "500m"}


def test_tiers_that_last_take_no_memory_and_no_time_to_start(render: Render) -> None:
    """A TiB of files is neither set aside in memory nor waited for by the startup probe."""
    volumes: Values = {
        "extraVolumes": [{"name": "disk", "hostPath": {"path": "/mnt"}}],
        "extraVolumeMounts": [{"name": "disk", "mountPath": "/data"}],
    }

    files = render(tiers(file_tier("/data/kv"), **volumes)).container("node")
    none = render(tiers(memory_tier(0))).container("node")

    assert files["resources"] == none["resources"]
    assert files["startupProbe"] == none["startupProbe"]


def test_shared_memory_is_the_pods_own_or_the_machines(render: Render) -> None:
    """Engines of other pods can map a tier only in a directory of the machine."""
    own = render(INSECURE)
    machines = render(node(sharedMemory={"hostPath": "/dev/shm/kvtier"}))

    assert _volume(own)["emptyDir"]["medium"] == "Memory"
    assert _volume(machines)["hostPath"] == {"path": "/dev/shm/kvtier", "type": "Directory"}
    assert _limit(own) == _limit(machines)
    assert [m for m in own.container("node")["volumeMounts"] if m["name"] == "shm"] == [
        {"name": "shm", "mountPath": "/dev/shm"}
    ]


def test_a_proxy_has_no_shared_memory(render: Render) -> None:
    """It keeps no blocks."""
    pod = render(INSECURE | ALL).pods["proxy"]

    assert "shm" not in {volume["name"] for volume in pod["volumes"]}
