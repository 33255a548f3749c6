"""The configuration reference in docs/operations.md is what the server has."""

from pathlib import Path
from typing import Any

import pytest
from pydantic.fields import FieldInfo

from kvtier.server import config
from kvtier.wire.sizes import format_size

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"


def _default(name: str, field: FieldInfo) -> str:
    value: Any = field.default
    if field.is_required():
        return "required"
    if field.default_factory or value in (None, ()):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return format_size(value) if "bytes" in name.split("_") else f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize("model", ["NodeConfig", "TierConfig", "LimitsConfig", "EventsConfig"])
def test_every_setting_is_listed_with_its_default(model: str) -> None:
    """The table of a group has one row for each setting, in order, and no other."""
    fields: dict[str, FieldInfo] = getattr(config, model).model_fields
    head = "| setting | default | meaning |\n|---|---|---|\n"
    rows = [f"| `{n}` | {_default(n, f)} | {f.description} |\n" for n, f in fields.items()]

    page = PAGE.read_text()

    assert f"{head}{''.join(rows)}\n" in page
