"""The chart, rendered by the real Helm library without a cluster."""

import importlib
import importlib.util
import platform
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

CHART = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "kvtier"
_SEPARATOR = re.compile(r"(?:^|\s*\n)---\s*")
_WHEELS = {("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")}
_WORKLOADS = ("DaemonSet", "StatefulSet", "Deployment")

Values = dict[str, Any]
Manifest = dict[str, Any]


class Release(NamedTuple):
    """A rendered chart.

    Attributes:
        manifests: Every object.
        notes: What an installer reads.
    """

    manifests: list[Manifest]
    notes: str

    def one(self, kind: str, suffix: str) -> Manifest:
        """Return the object of a kind whose name ends so."""
        (found,) = [m for m in self.all(kind) if m["metadata"]["name"].endswith(f"-{suffix}")]
        return found

    def all(self, kind: str) -> list[Manifest]:
        """Return every object of a kind."""
        return [m for m in self.manifests if m["kind"] == kind]

    @property
    def workloads(self) -> dict[str, Manifest]:
        """The objects that make pods, by the name of the component."""
        found = [m for m in self.manifests if m["kind"] in _WORKLOADS]
        return {m["metadata"]["labels"]["app.kubernetes.io/component"]: m for m in found}

    @property
    def pods(self) -> dict[str, Manifest]:
        """The specification of every pod, by component; the test's is `test`."""
        pods = {name: m["spec"]["template"]["spec"] for name, m in self.workloads.items()}
        tests = [m["spec"] for m in self.all("Pod")]
        return pods | ({"test": tests[0]} if tests else {})

    def container(self, component: str) -> Manifest:
        """Return the container of a component."""
        container: Manifest = self.pods[component]["containers"][0]
        return container

    def config(self, component: str) -> str:
        """Return the configuration file of a component."""
        text: str = self.one("ConfigMap", component)["data"]["config.yaml"]
        return text


Render = Callable[[Values], Release]


@pytest.fixture(scope="session")
def helm() -> Any:
    """The Helm library; skips only on platforms for which it has no wheel."""
    here = (sys.platform, platform.machine())
    if here not in _WHEELS and importlib.util.find_spec("helm_python") is None:
        pytest.skip(f"the chart is not tested here: helm-python-sdk has no wheel for {here}")
    return importlib.import_module("helm_python")


@pytest.fixture(scope="session")
def chart(helm: Any) -> Iterator[Any]:
    """The loaded chart."""
    with helm.Chart.load(CHART) as loaded:
        yield loaded


@pytest.fixture(scope="session")
def texts(chart: Any) -> Callable[[Values], dict[str, str]]:
    """Render the chart with values: the text of each template."""

    def run(values: Values) -> dict[str, str]:
        chart.validate_schema(values)
        rendered: dict[str, str] = chart.render(values, name="prod", namespace="serving")
        return rendered

    return run


@pytest.fixture(scope="session")
def render(texts: Callable[[Values], dict[str, str]]) -> Render:
    """Render the chart with values."""

    def run(values: Values) -> Release:
        rendered = texts(values)
        (notes,) = (text for path, text in rendered.items() if path.endswith(".txt"))
        documents = [
            yaml.safe_load(document)
            for path, text in rendered.items()
            if not path.endswith(".txt")
            for document in _SEPARATOR.split(text)
        ]
        return Release([each for each in documents if each], notes)

    return run


def scenario_values() -> dict[str, Values]:
    """Return every ci/*-values.yaml of the chart, by name."""
    paths = sorted((CHART / "ci").glob("*-values.yaml"))
    return {path.stem.removesuffix("-values"): yaml.safe_load(path.read_text()) for path in paths}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `scenario` once for each ci/*-values.yaml."""
    if "scenario" in metafunc.fixturenames:
        found = scenario_values()
        metafunc.parametrize("scenario", [pytest.param(v, id=name) for name, v in found.items()])
