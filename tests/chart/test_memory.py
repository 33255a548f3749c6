"""The pod gets the memory that its tiers need, or is not rendered at all."""

from typing import Any

import pytest

GIB = 1 << 30
SLACK = 64 << 20
# Where there are several tiers, their blocks may change places.
SPARE = 16 << 20


def _values(tiers: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"insecure": True, "config": {"tiers": tiers}, **more}


def _shm_bytes(manifests: dict[str, Any]) -> int:
    volumes = manifests["DaemonSet"]["spec"]["template"]["spec"]["volumes"]
    shm = next(v for v in volumes if v["name"] == "shm")
    assert shm["emptyDir"]["medium"] == "Memory"
    return int(shm["emptyDir"]["sizeLimit"])


@pytest.mark.parametrize(
    "capacity",
    [8 * GIB, "8GiB", "8 GiB", "8gib", str(8 * GIB)],
)
def test_shared_memory_holds_the_host_tier(render: Any, container: Any, capacity: object) -> None:
    """/dev/shm is larger than the tier and the memory limit is larger than /dev/shm."""
    values = _values([{"name": "cpu0", "medium": "cpu", "capacity": capacity}])

    shm = _shm_bytes(render(values))
    limit = int(container(values)["resources"]["limits"]["memory"])

    assert shm == 8 * GIB + SLACK
    assert limit == shm + GIB
    mounts = {m["name"]: m["mountPath"] for m in container(values)["volumeMounts"]}
    assert mounts["shm"] == "/dev/shm"


def test_several_host_tiers_add_up(render: Any) -> None:
    """Decimal and binary units, and bare numbers, are summed in bytes."""
    tiers: list[dict[str, Any]] = [
        {"name": "cpu0", "medium": "cpu", "capacity": "1TB"},
        {"name": "cpu1", "medium": "cpu", "capacity": 5_000_000},
    ]

    shm = _shm_bytes(render(_values(tiers)))

    assert shm == 10**12 + 5_000_000 + 2 * SPARE + SLACK


@pytest.mark.parametrize(
    ("device", "counted"), [(None, True), ("auto", True), ("emulated", True), ("cuda:0", False)]
)
def test_gpu_tier_counts_unless_a_device_is_named(
    container: Any, device: str | None, counted: bool
) -> None:
    """A GPU tier that may be emulated in host memory counts towards the limit."""
    tier = {"name": "gpu0", "medium": "gpu", "capacity": "4GiB"}
    values = _values([tier | ({"device": device} if device else {})])

    limit = int(container(values)["resources"]["limits"]["memory"])

    assert limit == SLACK + GIB + (4 * GIB if counted else 0)


@pytest.mark.parametrize("limit", ["9Gi", 9 * GIB, "9216Mi", "0.0087890625Ti"])
def test_too_small_limit_is_refused(chart: Any, limit: object) -> None:
    """A limit under what tiers, slack and overhead need names both numbers."""
    values = _values(
        [{"name": "cpu0", "medium": "cpu", "capacity": "8GiB"}],
        resources={"limits": {"memory": limit}},
    )

    with pytest.raises(Exception, match=rf"{9 * GIB} bytes.* need {9 * GIB + SLACK}"):
        chart.render(values, name="prod", namespace="serving")


def test_larger_limit_is_kept(container: Any) -> None:
    """A sufficient limit is used as it is, and a given request too."""
    values = _values(
        [{"name": "cpu0", "medium": "cpu", "capacity": "8GiB"}],
        resources={"requests": {"memory": "10Gi"}, "limits": {"memory": "12Gi", "cpu": 4}},
    )

    resources = container(values)["resources"]

    assert resources["limits"] == {"memory": str(12 * GIB), "cpu": 4}
    assert resources["requests"] == {"memory": "10Gi", "cpu": "500m"}
