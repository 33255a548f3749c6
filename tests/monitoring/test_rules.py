"""Every alert fires when it should, clears when that is over, and has a runbook."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring.conftest import Promtool
from tests.monitoring.metrics import ROOT, asked_for, exported, unknown

FILES = ROOT / "deploy" / "helm" / "kvtier" / "files"
TESTS = sorted((Path(__file__).parent / "rules").glob("*.yaml"))


def _rules(name: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load((FILES / name).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


ALERTS = {rule["alert"]: rule for rule in _rules("alerts.yaml")}
RECORDED = {rule["record"]: rule for rule in _rules("recording.yaml")}


@pytest.mark.parametrize("name", ["alerts.yaml", "recording.yaml"])
def test_the_rules_are_sound(promtool: Promtool, name: str) -> None:
    """Prometheus reads them, and no rule stands there twice."""
    promtool("check", "rules", "--lint=all", "--lint-fatal", FILES / name)


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_the_rules_do_what_their_tests_say(promtool: Promtool, path: Path) -> None:
    """Each test feeds series to the rules, and names what must come of them at which time."""
    promtool("test", "rules", path)


def _outcomes() -> dict[str, list[bool]]:
    """Return, of the test that bears an alert's name, whether it fires at each of its times."""
    outcomes = defaultdict(list)
    for test in (test for path in TESTS for test in yaml.safe_load(path.read_text())["tests"]):
        for check in test.get("alert_rule_test", ()):
            if check["alertname"] == test["name"]:
                outcomes[test["name"]].append(bool(check["exp_alerts"]))
            else:
                assert test["name"].startswith(f"{check['alertname']}: ")
    return outcomes


def test_every_alert_has_a_test_in_which_it_fires_and_clears() -> None:
    """It is silent at first, then fires, and is silent again, while its series go on."""
    assert _outcomes() == {alert: [False, True, False] for alert in ALERTS}


def test_every_rule_that_records_has_a_test() -> None:
    """Each name is asked for in a test."""
    (path,) = (path for path in TESTS if path.stem == "recording")
    checks = [c for t in yaml.safe_load(path.read_text())["tests"] for c in t["promql_expr_test"]]

    assert {name for check in checks for name in asked_for(check["expr"])} == set(RECORDED)


@pytest.mark.parametrize("alert", ALERTS)
def test_alerts_ask_for_metrics_that_are_there(alert: str) -> None:
    """No alert waits for a metric that nobody exports, nor for one that another rule records."""
    assert unknown(ALERTS[alert]["expr"], exported()) == set()


@pytest.mark.parametrize("name", RECORDED)
def test_what_is_recorded_is_there(name: str) -> None:
    """It comes of metrics that are exported, or of others that are recorded."""
    assert unknown(RECORDED[name]["expr"], exported() | set(RECORDED)) == set()


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_says_what_is_wrong_and_where_to_read_on(alert: str) -> None:
    """It has a severity, a sentence of what is wrong, and a section that says what to do."""
    rule = ALERTS[alert]
    runbooks = (ROOT / "docs" / "alerts.md").read_text()
    path, _, anchor = rule["annotations"]["runbook"].partition("#")

    assert re.fullmatch(r"Kvtier([A-Z][a-z]+)+", alert)
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["description"].endswith(".")
    assert (path, anchor) == ("docs/alerts.md", alert.lower())
    assert re.findall(rf"^### {alert}$", runbooks, re.MULTILINE) == [f"### {alert}"]


def test_there_is_no_runbook_without_its_alert() -> None:
    """What was renamed or taken away leaves no section behind."""
    runbooks = (ROOT / "docs" / "alerts.md").read_text()

    assert re.findall(r"^### (\w+)$", runbooks, re.MULTILINE) == list(ALERTS)


@pytest.mark.parametrize("name", RECORDED)
def test_names_that_are_recorded_tell_level_metric_and_operation(name: str) -> None:
    """They follow the custom of Prometheus: level:metric:operation."""
    level, metric, operation = name.split(":")

    assert level.startswith("job_instance")
    assert metric
    assert operation in {"ratio", "rate5m", "ratio_rate5m", "p99_rate5m"}
