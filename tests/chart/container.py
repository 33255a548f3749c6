"""A rendered container on this machine: its command, its variables, and what it has mounted."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.certificates import Authority
from tests.chart.conftest import Release

KVTIER = Path(sys.executable).parent / "kvtier"
# What Kubernetes would say is the name of the machine, or of the pod.
NAME = "machine-1"
MOUNTED = "/etc/kvtier"


class Container(NamedTuple):
    """What starts a component here as in its container.

    Attributes:
        command: The command with its arguments, in which the mounted files are those written here.
        env: The container's variables.
        file: The configuration file.
    """

    command: list[str]
    env: dict[str, str]
    file: Path

    @property
    def environment(self) -> dict[str, str]:
        """This process's variables, and the container's over them."""
        return {**os.environ, **self.env}


def container(release: Release, component: str, root: Path, name: str = NAME) -> Container:
    """Write below `root` what a component's container has mounted, and return how it starts.

    Args:
        release: The rendered chart.
        component: The component's name.
        root: An empty folder.
        name: The name of the machine, or of the pod.
    """
    for volume in release.pods[component]["volumes"]:
        if "secret" in volume:
            _write_secret(root / volume["name"])
    file = root / "config" / "config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(release.config(component).replace(MOUNTED, str(root)))
    rendered = release.container(component)
    assert rendered["command"] == [KVTIER.name]
    arguments = [each.replace(MOUNTED, str(root)) for each in rendered["args"]]
    listed = {each["name"]: each.get("value", name) for each in rendered.get("env", ())}
    env = {key: value.replace("$(KVTIER_NODE_ID)", name) for key, value in listed.items()}
    return Container([str(KVTIER), *arguments], env, file)


def _write_secret(directory: Path) -> None:
    """Write a secret of certificates, or of tokens by each key that scenarios use."""
    directory.mkdir(parents=True)
    for name, data in _secret(directory.name).items():
        (directory / name).write_bytes(data)


def _secret(kind: str) -> Mapping[str, bytes]:
    if kind == "tls":
        authority = Authority()
        issued = authority.server()
        return {"tls.crt": issued.cert, "tls.key": issued.key, "ca.crt": authority.cert}
    held = {"tokens": f"scheduler {'0' * 64}\n".encode(), "connect": b"secret"}
    return dict.fromkeys(("tokens", "token", "kvtier"), held[kind])
