"""The chart, rendered by the real Helm library without a cluster."""

import importlib
import importlib.util
import platform
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

CHART = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "kvtier"
_SEPARATOR = re.compile(r"(?:^|\s*\n)---\s*")

_WHEELS = {("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")}

Values = dict[str, Any]
Manifest = dict[str, Any]
Render = Callable[[Values], dict[str, Manifest]]


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
def render(chart: Any) -> Render:
    """Render the chart with values: the manifests by kind and, for Services, by name suffix."""

    def run(values: Values) -> dict[str, Manifest]:
        chart.validate_schema(values)
        manifests = {}
        for path, text in chart.render(values, name="prod", namespace="serving").items():
            if path.endswith(".txt"):
                continue
            for document in filter(str.strip, _SEPARATOR.split(text)):
                manifest = yaml.safe_load(document)
                suffix = manifest["metadata"]["name"].rpartition("-")[2]
                kind = manifest["kind"]
                manifests[f"{kind}/{suffix}" if kind == "Service" else kind] = manifest
        return manifests

    return run


@pytest.fixture
def container(render: Render) -> Callable[[Values], Manifest]:
    """The container of the rendered DaemonSet."""
    return lambda values: render(values)["DaemonSet"]["spec"]["template"]["spec"]["containers"][0]


def scenarios() -> list[Any]:
    """Every ci/*-values.yaml of the chart, as parameters."""
    return [
        pytest.param(yaml.safe_load(path.read_text()), id=path.stem.removesuffix("-values"))
        for path in sorted((CHART / "ci").glob("*-values.yaml"))
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `scenario` once for each ci/*-values.yaml."""
    if "scenario" in metafunc.fixturenames:
        metafunc.parametrize("scenario", scenarios())
