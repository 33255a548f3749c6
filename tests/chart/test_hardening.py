"""Every pod meets the restricted pod security standard, unless values ask for what it forbids."""

from typing import Any

from tests.chart.builders import ALL, CERTIFICATES, INSECURE, node
from tests.chart.conftest import Render, Values

HOST = ("hostNetwork", "hostPID", "hostIPC")


def test_every_pod_is_hardened(render: Render, scenario: Values) -> None:
    """No root, no privileges, no writable root file system, the runtime's own system calls."""
    for name, pod in render(scenario).pods.items():
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        }, name
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, name


def test_no_pod_has_a_token_of_kubernetes(render: Render, scenario: Values) -> None:
    """Neither the pods nor their account mount one; no variable tells of services."""
    release = render(scenario)

    for pod in release.pods.values():
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
    for account in release.all("ServiceAccount"):
        assert account["automountServiceAccountToken"] is False


def test_nothing_of_the_machine_is_shared_unless_asked_for(render: Render) -> None:
    """Neither namespaces nor directories of the machine are in the pods."""
    for pod in render(ALL | CERTIFICATES).pods.values():
        assert not set(HOST) & set(pod)
        assert not [v for v in pod.get("volumes", ()) if "hostPath" in v]

    assert render(node(hostIPC=True)).pods["node"]["hostIPC"] is True


def test_secrets_are_for_the_pods_group_alone(render: Render, scenario: Values) -> None:
    """Keys and tokens are not readable for everybody, and nothing is mounted to be written."""
    for pod in render(scenario).pods.values():
        secrets = {v["name"]: v["secret"] for v in pod.get("volumes", ()) if "secret" in v}
        mounts: list[Any] = [m for c in pod["containers"] for m in c.get("volumeMounts", ())]

        assert {secret["defaultMode"] for secret in secrets.values()} <= {0o440}
        assert all(m["readOnly"] for m in mounts if m["name"] in {*secrets, "config"})


def test_what_is_written_is_bounded(render: Render, scenario: Values) -> None:
    """No empty directory can fill the machine."""
    for pod in render(scenario).pods.values():
        for volume in pod.get("volumes", ()):
            assert "emptyDir" not in volume or volume["emptyDir"]["sizeLimit"]


def test_every_container_states_its_memory(render: Render, scenario: Values) -> None:
    """A limit and a request, so that none is taken for one that may be killed first."""
    for pod in render(scenario).pods.values():
        for container in pod["containers"]:
            assert container["resources"]["limits"]["memory"]
            assert container["resources"]["requests"]["memory"]


def test_images_are_one(render: Render) -> None:
    """A digest wins over a tag, and every container runs it."""
    digest = f"sha256:{'0' * 64}"

    release = render(INSECURE | ALL | {"image": {"tag": "1", "digest": digest}})

    images = {c["image"] for pod in release.pods.values() for c in pod["containers"]}
    assert images == {f"kvtier@{digest}"}
