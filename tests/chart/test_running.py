"""A container, started as rendered, answers its probes and ends when Kubernetes says so."""

import json
import signal
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from tests.chart.builders import INSECURE, memory_tier
from tests.chart.conftest import Manifest, Release, Render, Values
from tests.chart.container import KVTIER, MOUNTED, container

pytestmark = pytest.mark.slow
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")

Started = tuple[subprocess.Popen[str], Manifest]


def _free_ports(names: tuple[str, ...]) -> dict[str, int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in names]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return {n: s.getsockname()[1] for n, s in zip(names, sockets, strict=True)}


@contextmanager
def _running(release: Release, component: str, root: Path) -> Iterator[Started]:
    """Start a component's container, and give its process once it serves."""
    started = container(release, component, root, f"chart-{uuid.uuid4().hex[:8]}")
    with subprocess.Popen(
        started.command, env=started.environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["event"] == "serving"
            yield process, release.container(component)
        finally:
            process.kill()


def _refusal(port: int, method: str) -> grpc.StatusCode:
    """Return the code with which a call without TLS fails; OK if it does not."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: Any = channel.unary_unary(method)
        try:
            call(b"", timeout=20)
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()
            return code
    return grpc.StatusCode.OK


def _on_loopback() -> Values:
    """Return values of a small node that listens on free ports."""
    return {
        "listenAddress": "127.0.0.1",
        "ports": _free_ports(("node", "proxy", "health", "metrics")),
        "node": {"config": {"tiers": [memory_tier("1MiB")], "drain_delay": 0}},
    }


@pytest.fixture
def start(render: Render, tmp_path: Path) -> Iterator[Callable[[str], Started]]:
    """Start a component of a release without TLS."""
    values = INSECURE | _on_loopback()
    # Node and proxy are in one network here, and would both take the port.
    values["metrics"] = {"enabled": False}
    own = f"127.0.0.1:{values['ports']['node']}"
    # The headless service of the release would not be found here.
    others = {"secondaries_file": str(tmp_path / "none")}
    values["proxy"] = {"enabled": True, "config": {"primary": own, **others}}
    release = render(values)
    with ExitStack() as running:
        yield lambda component: running.enter_context(
            _running(release, component, tmp_path / component)
        )


def _answer(probe: Any) -> str:
    """Return what a probe of the kubelet hears."""
    with grpc.insecure_channel(f"127.0.0.1:{probe['grpc']['port']}") as channel:
        request = HealthCheckRequest(service=probe["grpc"]["service"])
        answer = HealthStub(channel).Check(request, timeout=20, wait_for_ready=True)
    return str(HealthCheckResponse.ServingStatus.Name(answer.status))


def test_a_node_answers_its_probes_and_ends_in_time(start: Callable[[str], Started]) -> None:
    """Each service that a probe names is known and SERVING; SIGTERM ends the process itself."""
    process, rendered = start("node")

    answers = [_answer(rendered[probe]) for probe in PROBES]
    process.send_signal(signal.SIGTERM)

    assert answers == ["SERVING"] * 3
    assert process.wait(timeout=25) == 0


def test_a_proxy_answers_its_probes_and_ends_in_time(start: Callable[[str], Started]) -> None:
    """As a node does, beside one that it follows."""
    start("node")
    process, rendered = start("proxy")

    alive = [_answer(rendered[probe]) for probe in ("startupProbe", "livenessProbe")]
    process.send_signal(signal.SIGTERM)

    assert alive == ["SERVING"] * 2
    assert process.wait(timeout=25) == 0


def test_with_tls_only_health_is_answered_without_it(render: Render, tmp_path: Path) -> None:
    """On a port of its own; the port of all calls takes no plaintext."""
    values = _on_loopback() | {"tls": {"existingSecret": "own"}}
    ports = values["ports"]
    check, get_node = "/grpc.health.v1.Health/Check", "/kvtier.v1.TierService/GetNode"

    with _running(render(values), "node", tmp_path / "node") as (_, rendered):
        answers = [_answer(rendered[probe]) for probe in PROBES]
        beyond_health = _refusal(ports["health"], get_node)
        in_plaintext = _refusal(ports["node"], check)

    assert answers == ["SERVING"] * 3
    assert {rendered[probe]["grpc"]["port"] for probe in PROBES} == {ports["health"]}
    assert beyond_health is grpc.StatusCode.UNIMPLEMENTED
    assert in_plaintext is grpc.StatusCode.UNAVAILABLE


def test_what_helm_test_runs_gets_in(render: Render, tmp_path: Path) -> None:
    """With certificates on both sides, and a grant for the one that it shows."""
    values = _on_loopback() | {"tls": {"existingSecret": "own"}}
    values["auth"] = {"grants": [{"identity": "dns:localhost", "role": "reader"}]}
    release = render(values)
    endpoint = f"127.0.0.1:{values['ports']['node']}"

    with _running(release, "node", tmp_path / "node"):
        codes = {}
        for rendered in release.pods["test"]["containers"]:
            command, option, _, *credentials = rendered["args"]
            files = [each.replace(MOUNTED, str(tmp_path / "node")) for each in credentials]
            done = subprocess.run(
                [KVTIER, command, option, endpoint, "--timeout", "30", *files],
                capture_output=True,
                text=True,
                timeout=100,
                check=False,
            )
            codes[rendered["name"]] = (done.returncode, done.stderr)

    assert codes == {"ping-node": (0, ""), "check-node": (0, "")}
