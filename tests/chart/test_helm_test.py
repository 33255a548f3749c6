"""What `helm test` runs: commands that there are, with what they need to get in."""

import pytest
from click.testing import CliRunner

from kvtier.cli.main import kvtier
from tests.chart.builders import ALL, CERTIFICATES, INSECURE
from tests.chart.conftest import Manifest, Release, Render, Values


def _pod(release: Release) -> Manifest:
    return release.one("Pod", "test")


def _commands(release: Release) -> dict[str, list[str]]:
    return {c["name"]: c["args"] for c in _pod(release)["spec"]["containers"]}


def test_each_component_is_asked_at_an_address_of_its_own(render: Render) -> None:
    """A node answers, and its events tell what it lists; a proxy answers."""
    commands = _commands(render(INSECURE | ALL))

    host = "prod-kvtier-{}.serving.svc:{}"
    storage = f"prod-kvtier-storage-0.{host.format('storage', 7600)}"
    assert commands == {
        "ping-node": ["ping", "-e", host.format("members", 7600)],
        "check-node": ["check", "-e", host.format("members", 7600)],
        "ping-storage": ["ping", "-e", storage],
        "check-storage": ["check", "-e", storage],
        "ping-proxy": ["ping", "-e", host.format("proxy", 7700)],
    }


def test_the_pod_is_a_hook_that_leaves_nothing(render: Render) -> None:
    """It runs for `helm test` alone, and once."""
    pod = _pod(render(INSECURE))

    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert "hook-succeeded" in pod["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
    assert pod["spec"]["restartPolicy"] == "Never"
    assert render(INSECURE | {"testPod": {"enabled": False}}).all("Pod") == []


def test_the_pod_is_let_in_and_is_no_node(render: Render) -> None:
    """Policies let the release's pods in; no service takes the test for one that serves."""
    release = render(INSECURE | ALL)
    labels = _pod(release)["metadata"]["labels"].items()

    policy = release.one("NetworkPolicy", "node")["spec"]["ingress"][0]["from"][0]
    selectors = [s["spec"]["selector"].items() for s in release.all("Service")]

    assert policy["podSelector"]["matchLabels"].items() <= labels
    assert not any(selector <= labels for selector in selectors)


def test_with_tls_it_trusts_the_authority_and_shows_a_certificate(render: Render) -> None:
    """That of a component that there is."""
    values: Values = {"node": {"enabled": False}, "storage": {"enabled": True}}

    pod = _pod(render(CERTIFICATES | values))["spec"]

    directory = "/etc/kvtier/tls"
    assert pod["containers"][0]["args"][3:] == [
        "--cacert",
        f"{directory}/ca.crt",
        "--cert",
        f"{directory}/tls.crt",
        "--key",
        f"{directory}/tls.key",
    ]
    (volume,) = pod["volumes"]
    assert volume["secret"]["secretName"] == "prod-kvtier-storage-tls"
    assert pod["containers"][0]["volumeMounts"][0]["mountPath"] == directory


def test_every_option_exists(render: Render, scenario: Values) -> None:
    """The command line reads the rendered arguments without a complaint."""
    refused = {
        name: arguments
        for name, arguments in _commands(render(scenario)).items()
        if not _understood(arguments)
    }

    assert refused == {}


def _understood(arguments: list[str]) -> bool:
    """Tell whether there is such a command with such options; it is not run."""
    return CliRunner().invoke(kvtier, [*arguments, "--help"]).exit_code == 0


@pytest.mark.parametrize("arguments", [["check", "--no-such-option"], ["pong"]])
def test_what_does_not_exist_would_be_found(arguments: list[str]) -> None:
    """The check above is one that can fail."""
    assert not _understood(arguments)
