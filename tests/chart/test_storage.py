"""Storage nodes, and the directories of tiers that last."""

from typing import Any

import pytest
import yaml

from tests.chart.builders import INSECURE, file_tier, tiers
from tests.chart.conftest import Render, Values

MOUNT = "/var/lib/kvtier"


def _storage(**values: Any) -> Values:
    return INSECURE | {"storage": {"enabled": True, **values}}


def test_each_storage_node_has_a_volume_and_a_name(render: Render) -> None:
    """Both stay with it, and so does what is in the volume."""
    persistence: Values = {"size": "2Ti", "storageClassName": "nvme", "whenScaled": "Delete"}

    spec = render(_storage(persistence=persistence)).workloads["storage"]["spec"]

    (claim,) = spec["volumeClaimTemplates"]
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "nvme",
        "resources": {"requests": {"storage": "2Ti"}},
    }
    mounts = spec["template"]["spec"]["containers"][0]["volumeMounts"]
    assert {"name": claim["metadata"]["name"], "mountPath": MOUNT} in mounts
    assert spec["serviceName"] == "prod-kvtier-storage"
    kept = {"whenDeleted": "Retain", "whenScaled": "Delete"}
    assert spec["persistentVolumeClaimRetentionPolicy"] == kept


def test_without_a_volume_none_is_claimed(render: Render) -> None:
    """Tiers of objects need no disk."""
    tier: Values = {"name": "obj0", "medium": "obj", "capacity": "1TiB", "url": "s3://a/b"}
    values = _storage(config={"tiers": [tier]}, persistence={"enabled": False})

    spec = render(values).workloads["storage"]["spec"]

    assert "volumeClaimTemplates" not in spec
    mounts = spec["template"]["spec"]["containers"][0]["volumeMounts"]
    assert MOUNT not in {mount["mountPath"] for mount in mounts}


@pytest.mark.parametrize("capacity", ["101GiB", "1TiB", 200 * 10**9])
def test_a_volume_that_is_too_small_is_refused(chart: Any, capacity: object) -> None:
    """Its tiers would fill it, and be read-only ever after."""
    values = _storage(config={"tiers": [file_tier(f"{MOUNT}/fs0", capacity)]})

    with pytest.raises(Exception, match=r"storage.persistence.size is 100Gi, but .* hold \d+"):
        chart.render(values, name="prod", namespace="serving")


def test_nodes_may_pull_from_the_storage_nodes(render: Render) -> None:
    """By their names that stay, unless values say otherwise."""
    derived = yaml.safe_load(render(_storage(replicas=2)).config("node"))
    given = _storage() | {"node": {"config": {"peers": ["other:7600"]}}}

    assert derived["peers"] == [
        f"prod-kvtier-storage-{number}.prod-kvtier-storage.serving.svc:7600" for number in (0, 1)
    ]
    assert yaml.safe_load(render(given).config("node"))["peers"] == ["other:7600"]
    assert "peers" not in yaml.safe_load(render(INSECURE).config("node"))


def _files(directory: str, mount: str | None) -> Values:
    volumes: Values = {
        "extraVolumes": [{"name": "disk", "hostPath": {"path": "/mnt/nvme"}}],
        "extraVolumeMounts": [{"name": "disk", "mountPath": mount}],
    }
    return tiers(file_tier(directory), **(volumes if mount is not None else {}))


@pytest.mark.parametrize("mount", ["/data/kv", "/data/kv/", "/data"])
def test_the_directory_of_files_is_in_a_volume_of_its_own(render: Render, mount: str) -> None:
    """The volume is mounted where it was said, beside those that every pod has."""
    pod = render(_files("/data/kv", mount)).pods["node"]

    assert pod["volumes"][-1] == {"name": "disk", "hostPath": {"path": "/mnt/nvme"}}
    assert pod["containers"][0]["volumeMounts"][-1] == {"name": "disk", "mountPath": mount}


@pytest.mark.parametrize("mount", [None, "/data/k", "/data/kv/below", "/other"])
def test_a_directory_of_files_in_no_volume_is_refused(chart: Any, mount: str | None) -> None:
    """The pod could not write there; the message says where a volume belongs."""
    with pytest.raises(Exception, match=r"directory /data/kv of tier fs0 is in no volume.*mount"):
        chart.render(_files("/data/kv", mount), name="prod", namespace="serving")
