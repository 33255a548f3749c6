"""The dashboard's queries are sound, and each panel says what it shows."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring.conftest import Promtool
from tests.monitoring.metrics import ROOT, exported, unknown

DASHBOARD = json.loads((ROOT / "deploy/helm/kvtier/files/dashboard.json").read_text())
ROWS = [panel for panel in DASHBOARD["panels"] if panel["type"] == "row"]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
VARIABLES = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def _title(panel: dict[str, Any]) -> str:
    return str(panel["title"])


def test_prometheus_reads_every_query(promtool: Promtool, tmp_path: Path) -> None:
    """Each is an expression once Grafana has put its variables in."""
    plain = [query.replace("$__rate_interval", "5m").replace("$", ".") for query in QUERIES]
    recorded = [{"record": f"query_{n}", "expr": query} for n, query in enumerate(plain)]
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": recorded}]}))

    promtool("check", "rules", path)


def test_queries_use_the_variables_that_there_are() -> None:
    """Every query can be narrowed to nodes, and names no variable that is not defined."""
    used = {name for query in QUERIES for name in re.findall(r"\$(\w+)", query)}

    assert used == {"__rate_interval", "node", "tier"}
    assert [query for query in QUERIES if 'instance=~"$node"' not in query] == []
    assert set(VARIABLES) == {"datasource", "node", "tier"}


@pytest.mark.parametrize("panel", PANELS, ids=_title)
def test_a_panel_asks_for_metrics_that_are_there(panel: dict[str, Any]) -> None:
    """No panel stays empty because nobody exports what it shows."""
    for target in panel["targets"]:
        assert unknown(target["expr"], exported()) == set()


@pytest.mark.parametrize("panel", PANELS, ids=_title)
def test_a_panel_says_what_it_shows(panel: dict[str, Any]) -> None:
    """It has a title, a description, a unit, and names for its lines where there are several."""
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["targets"]
    if panel["type"] == "timeseries":
        assert all(target["legendFormat"] for target in panel["targets"])


def test_panels_ask_the_chosen_source() -> None:
    """The source of the data is a variable, so that the dashboard works anywhere."""
    targets = [target for panel in PANELS for target in panel["targets"]]

    assert VARIABLES["datasource"]["type"] == "datasource"
    assert [each["title"] for each in PANELS if each["datasource"] != SOURCE] == []
    assert [each["expr"] for each in targets if each["datasource"] != SOURCE] == []


def test_nodes_are_chosen_by_id() -> None:
    """Of what Prometheus answers, the id is what is shown and the instance what is asked for."""
    answered = (
        'kvtier_node_info{instance="10.0.0.1:9600", job="kvtier", node_id="node-a"} 1 1700000000'
    )
    pattern = VARIABLES["node"]["regex"].removeprefix("/").removesuffix("/g").replace("?<", "?P<")

    groups = [found.groupdict() for found in re.finditer(pattern, answered)]

    assert [each["text"] for each in groups if each["text"]] == ["node-a"]
    assert [each["value"] for each in groups if each["value"]] == ["10.0.0.1:9600"]


def test_rows_are_those_that_operators_look_for() -> None:
    """From the fleet as a whole to single processes."""
    assert [row["title"] for row in ROWS] == [
        "Fleet",
        "Tiers",
        "Events",
        "Calls",
        "Process",
        "Proxies",
    ]


def test_nothing_overlaps() -> None:
    """Panels lie side by side within the 24 columns, and each has an id of its own."""
    taken = [
        cell
        for at in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for cell in itertools.product(
            range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])
        )
    ]

    assert len(set(taken)) == len(taken)
    assert {x for x, _ in taken} == set(range(24))
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
