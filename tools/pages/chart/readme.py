"""The chart's README: written by hand, with a table of its values."""

import json
from typing import Any

from tools.pages.chart.values import CHART, Value, values

_BEGIN = "<!-- from values.yaml, by make docs -->\n"
_END = "<!-- the end of the values -->\n"
_HEAD = "| value | default | meaning |\n|---|---|---|\n"


def page() -> str:
    """Return the README with the table as values.yaml has it now."""
    text = (CHART / "README.md").read_text()
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}{_table()}{_END}{after}"


def _table() -> str:
    """Return a table of what is shared, and one for each group that says what it is."""
    tables = {"": ""}
    for value in values():
        whole, _, inner = value.path.partition(".")
        if value.group and not inner and value.description:
            tables[whole] = f"\n### `{whole}`\n\n{value.description}\n"
        if not value.group:
            tables[whole if whole in tables else ""] += _row(value)
    return "".join(map(_with_head, tables.values())) + "\n"


def _with_head(table: str) -> str:
    text, _, rows = table.partition("| `")
    return f"{text}\n{_HEAD}| `{rows}"


def _row(value: Value) -> str:
    return f"| `{value.path}` | {_default(value.default)} | {value.description} |\n"


def _default(default: Any) -> str:
    return f"`{json.dumps(default)}`" if default not in ("", [], {}) else ""
