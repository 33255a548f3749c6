"""Every value is told what it does, and does it."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.chart.builders import ALL, CERTIFICATES
from tests.chart.conftest import Values
from tools.pages.chart.readme import page
from tools.pages.chart.values import Value, values

LEAVES = [value for value in values() if not value.group]
_TEXT = {"a": "b"}
# What each list, map or text of a form of its own may be in place of the default.
CHANGED: dict[str, Any] = {
    "image.digest": f"sha256:{'0' * 64}",
    "image.pullPolicy": "Always",
    "imagePullSecrets": [{"name": "a"}],
    "listenAddress": "[::]",
    "grants": [{"identity": "dns:a", "role": "reader"}],
    "duration": "48h",
    "renewBefore": "4h",
    "interval": "5s",
    "labels": _TEXT,
    "annotations": _TEXT,
    "podLabels": _TEXT,
    "podAnnotations": _TEXT,
    "nodeSelector": _TEXT,
    "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
    "rules": [{"to": [{"podSelector": {}}]}],
    "config": {"log_level": "debug"},
    "memoryOverhead": "2GiB",
    "hostPath": "/dev/shm/kvtier",
    "resources": {"limits": {"cpu": 4}},
    "resourceClaims": [{"name": "gpu"}],
    "extraEnv": [{"name": "A", "value": "b"}],
    "extraVolumes": [{"name": "a", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "a", "mountPath": "/a"}],
    "tolerations": [{"key": "a"}],
    "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [],
    "updateStrategy": {"rollingUpdate": {"maxUnavailable": 7}},
    "persistence.size": "200Gi",
    "accessModes": ["ReadWriteOncePod"],
    "mountPath": "/var/lib",
    "whenDeleted": "Delete",
    "whenScaled": "Delete",
}
_METRICS = {name: {"enabled": True} for name in ("podMonitor", "prometheusRule", "dashboard")}
_EVERYTHING: Values = ALL | {"metrics": _METRICS}
# A value does something in one of these, if anywhere.
BASES: list[Values] = [
    _EVERYTHING | CERTIFICATES | {"networkPolicy": {"egress": {"enabled": True}}},
    _EVERYTHING
    | {
        "tls": {"existingSecret": "certificate"},
        "auth": {"tokens": {"secret": "tokens"}, "connect": {"secret": "token"}},
    },
    {"insecure": True},
]


def _changed(value: Value) -> Any:
    parts = value.path.split(".")
    for first in range(len(parts)):
        if ".".join(parts[first:]) in CHANGED:
            return CHANGED[".".join(parts[first:])]
    if isinstance(value.default, bool):
        return not value.default
    return value.default + 1 if isinstance(value.default, int) else f"{value.default}x"


def _with(base: Values, path: str, value: Any) -> Values:
    first, _, rest = path.partition(".")
    return base | {first: _with(base.get(first, {}), rest, value) if rest else value}


def _at(base: Values, path: str, default: Any) -> Any:
    for part in path.split("."):
        if part not in base:
            return default
        base = base[part]
    return base


def cache_by_text(run: Callable[[Values], Any]) -> Callable[[Values], Any]:
    """Remember what came of values."""
    known: dict[str, Any] = {}

    def cached(given: Values) -> Any:
        key = repr(given)
        if key not in known:
            known[key] = run(given)
        return known[key]

    return cached


@pytest.fixture(scope="module")
def outcome(helm: Any, texts: Callable[[Values], dict[str, str]]) -> Callable[[Values], Any]:
    """Render, or say why it is refused by a template."""

    @cache_by_text
    def run(given: Values) -> Any:
        try:
            return texts(given)
        except helm.HelmRenderError as error:
            return str(error)

    return run


@pytest.mark.parametrize("value", LEAVES, ids=[value.path for value in LEAVES])
def test_every_value_does_something(outcome: Callable[[Values], Any], value: Value) -> None:
    """Another value than the default changes what is rendered, somewhere."""
    changed = _changed(value)

    effects = [
        outcome(base) != outcome(_with(base, value.path, changed))
        for base in BASES
        if _at(base, value.path, value.default) != changed
    ]

    assert any(effects)


def test_every_value_says_what_it_does() -> None:
    """The comment above a value is its line in the README."""
    assert [value.path for value in values() if not (value.description or value.group)] == []


def test_the_readme_lists_every_value() -> None:
    """With its default."""
    text = page()

    for value in LEAVES:
        assert f"\n| `{value.path}` | " in text
        assert value.description in text
