"""The dashboard for Grafana 10 and 11, as JSON."""

import json
from collections.abc import Iterator
from typing import Any

from tools.pages.dashboard import calls, events, fleet, process, proxies, tiers
from tools.pages.dashboard.panel import Panel

ROWS = {
    "Fleet": fleet.PANELS,
    "Tiers": tiers.PANELS,
    "Events": events.PANELS,
    "Calls": calls.PANELS,
    "Process": process.PANELS,
    "Proxies": proxies.PANELS,
}

_COLUMNS = 24
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_HEIGHTS = {"stat": 4, "timeseries": 8}


def page() -> str:
    """Return the dashboard as JSON."""
    dashboard = {
        "uid": "kvtier",
        "title": "kvtier",
        "description": "What the nodes, tiers and proxies of kvtier do. Made by `make docs`.",
        "tags": ["kvtier"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_datasource(), _node(), _tier()]},
        "panels": [panel | {"id": number} for number, panel in enumerate(_laid_out(), 1)],
    }
    return json.dumps(dashboard, indent=1) + "\n"


def _laid_out() -> Iterator[dict[str, Any]]:
    """Place the panels of each row from left to right, and go on below where one does not fit."""
    y = 0
    for title, panels in ROWS.items():
        yield {"type": "row", "title": title, "collapsed": False, "panels": []} | _at(0, y, 24, 1)
        x, y, below = 0, y + 1, y + 1
        for panel in panels:
            if x + panel.width > _COLUMNS:
                x, y = 0, below
            height = _HEIGHTS[panel.kind]
            yield _panel(panel) | _at(x, y, panel.width, height)
            x, below = x + panel.width, max(below, y + height)
        y = below


def _at(x: int, y: int, width: int, height: int) -> dict[str, Any]:
    return {"gridPos": {"x": x, "y": y, "w": width, "h": height}}


def _panel(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.unit == "percentunit":
        defaults |= {"min": 0, "max": 1}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + i),
                "datasource": _SOURCE,
                "expr": expr,
                "legendFormat": legend,
            }
            for i, (expr, legend) in enumerate(panel.queries)
        ],
        "options": {
            "stat": {"reduceOptions": {"calcs": ["lastNotNull"]}},
            "timeseries": {
                "legend": {"displayMode": "list", "placement": "bottom"},
                "tooltip": {"mode": "multi", "sort": "desc"},
            },
        }[panel.kind],
    }


def _datasource() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }


def _node() -> dict[str, Any]:
    """Show nodes by their ids, and choose their series by instance."""
    names = '/node_id="(?<text>[^"]+)|instance="(?<value>[^"]+)/g'
    return _variable("node", "Node", "query_result(kvtier_node_info)") | {"regex": names}


def _tier() -> dict[str, Any]:
    query = 'label_values(kvtier_tier_capacity_bytes{instance=~"$node"}, tier)'
    return _variable("tier", "Tier", query)


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }
