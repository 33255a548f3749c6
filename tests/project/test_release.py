"""One version everywhere, and every change of it told."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
CURRENT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_installed_version_is_the_current_one() -> None:
    """What runs here was installed from this tree's pyproject.toml."""
    assert version("kvtier") == CURRENT


def test_changelog_tells_the_current_version() -> None:
    """The newest version of the changelog is the current one, unreleased or with its date."""
    text = (ROOT / "CHANGELOG.md").read_text()

    headings = re.findall(r"^## \[(.+?)\] - (\d{4}-\d\d-\d\d|unreleased)$", text, re.MULTILINE)

    assert headings[0][0] == CURRENT


def test_chart_installs_the_current_version() -> None:
    """The chart's appVersion, which is the default image tag, is the current version."""
    chart = yaml.safe_load((ROOT / "deploy" / "helm" / "kvtier" / "Chart.yaml").read_text())

    assert chart["appVersion"] == CURRENT
