"""The page of every setting, from the models that read them."""

from types import NoneType
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from kvtier.proxy.config import ProxyConfig
from kvtier.server.config import NodeConfig
from kvtier.wire.sizes import format_size

_HEAD = """# Every setting

This page is made from the models that read the configuration (`make docs`). How it is given is told
in [operations.md](operations.md#configure-it): one YAML file, `KVTIER_` variables over it, options
over both. `kvtier config check` says what is wrong with one, `kvtier config show` what a node makes
of it, and `kvtier config schema` is the JSON schema for editors.
"""
_TABLE = "| setting | default | meaning |\n|---|---|---|\n"


def page() -> str:
    """Return the page."""
    nodes, proxies = _groups(NodeConfig, ""), _groups(ProxyConfig, "")
    parts = [_HEAD, "## A node\n", *_sections(nodes), "## A proxy\n", *_sections(proxies)]
    return "\n".join(parts)


def _groups(model: type[BaseModel], path: str) -> dict[str, type[BaseModel]]:
    """Return a model and all that it holds, by where they stand."""
    found = {path: model}
    for name, field in model.model_fields.items():
        inner = _model_in(field.annotation)
        if inner is not None:
            many = "[]" if "tuple" in str(field.annotation).split("|")[0] else ""
            found |= _groups(inner, f"{path}.{name}{many}".removeprefix("."))
    return found


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = (_model_in(each) for each in get_args(annotation) if each is not NoneType)
    return next((model for model in inner if model is not None), None)


def _sections(groups: dict[str, type[BaseModel]]) -> list[str]:
    sections = []
    for path, model in groups.items():
        if path:
            sections.append(f"### `{path}`\n")
        said = " ".join((model.__doc__ or "").split())
        rows = (
            f"| `{name}` | {_default(name, field)} | {field.description} |\n"
            for name, field in model.model_fields.items()
        )
        sections.append(f"{said}\n\n{_TABLE}{''.join(rows)}")
    return sections


def _default(name: str, field: FieldInfo) -> str:
    value: Any = field.default
    if field.is_required():
        return "required"
    if field.default_factory or value in (None, ()):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, int):
        size = {"bytes", "rate"}.intersection(name.split("_"))
        return format_size(value) if size else f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)
