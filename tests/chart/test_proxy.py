"""Whom the proxies follow, and how they end."""

from typing import Any

import pytest
import yaml

from tests.chart.builders import ALL, INSECURE
from tests.chart.conftest import Render, Values

NO_NODES: Values = {"node": {"enabled": False}}
STORAGE: Values = {"storage": {"enabled": True}}
MEMBERS = "prod-kvtier-members.serving.svc:7600"


def _proxy(**config: Any) -> Values:
    return INSECURE | {"proxy": {"enabled": True, "config": config}}


def _config(render: Render, values: Values) -> Any:
    return yaml.safe_load(render(values).config("proxy"))


def test_a_proxy_follows_every_node_from_its_own_machine(render: Render) -> None:
    """Its primary is the node beside it, so that it goes where there is one."""
    release = render(_proxy() | STORAGE)

    config = yaml.safe_load(release.config("proxy"))
    assert config["primary"] == "prod-kvtier-local.serving.svc:7600"
    assert config["secondaries_dns"] == MEMBERS
    affinity = release.pods["proxy"]["affinity"]["podAffinity"]
    (rule,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["labelSelector"] == release.workloads["node"]["spec"]["selector"]
    assert rule["topologyKey"] == "kubernetes.io/hostname"


def test_without_nodes_on_machines_storage_comes_first(render: Render) -> None:
    """By a name that stays; the proxy may be anywhere."""
    release = render(_proxy() | NO_NODES | STORAGE)

    config = yaml.safe_load(release.config("proxy"))
    assert config["primary"] == "prod-kvtier-storage-0.prod-kvtier-storage.serving.svc:7600"
    assert config["secondaries_dns"] == MEMBERS
    assert "affinity" not in release.pods["proxy"]


def test_what_is_given_is_kept(render: Render) -> None:
    """A primary of one's own ties a proxy to no machine; one way to tell secondaries stays."""
    release = render(_proxy(primary="a:1", secondaries=["b:2"]))

    config = yaml.safe_load(release.config("proxy"))
    assert (config["primary"], config["secondaries"]) == ("a:1", ["b:2"])
    assert "secondaries_dns" not in config
    assert "affinity" not in release.pods["proxy"]


def test_a_proxy_alone_follows_whom_it_is_told(chart: Any, render: Render) -> None:
    """There is no headless service to look at, and nobody to guess."""
    config = _config(render, _proxy(primary="a:1") | NO_NODES)

    assert "secondaries_dns" not in config
    with pytest.raises(Exception, match=r"no node to follow: set proxy.config.primary"):
        chart.render(_proxy() | NO_NODES, name="prod", namespace="serving")


def test_addresses_follow_the_ports(render: Render) -> None:
    """A port of one's own is in every address."""
    config = _config(render, _proxy() | {"ports": {"node": 17600, "proxy": 17700}})

    assert config["listen"] == "0.0.0.0:17700"
    assert config["primary"].endswith(":17600")
    assert config["secondaries_dns"].endswith(":17600")


def test_a_proxy_serves_on_until_others_have_heard_that_it_ends(render: Render) -> None:
    """And is not killed before."""
    release = render(INSECURE | ALL)

    assert "drain_delay: 5\n" in release.config("proxy")
    assert release.pods["proxy"]["terminationGracePeriodSeconds"] >= 5 + 10
