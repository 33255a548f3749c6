"""From sources to a checked configuration, or one line that says what to mend."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kvtier.server.config.models import NodeConfig, TierConfig
from kvtier.server.config.sources import ConfigError, Layer, read_environment, read_file

Place = tuple[int | str, ...]

# In place of pydantic's words, where those speak of Python or of a pattern.
_WRONG = {
    "bool_parsing": "write true or false",
    "model_type": "write settings by name, such as 'name: value'",
    "string_pattern_mismatch": "",
    "string_type": "write text, in quotes if it looks like a number",
    "tuple_type": "write a list",
}


def load_config(
    path: Path | None, env: Mapping[str, str], overrides: Mapping[str, object]
) -> NodeConfig:
    """Return the configuration of a node.

    Flags win over the environment, and the environment over the file. Groups of settings are
    merged; a list, such as the tiers, is taken whole from the place that wins. A setting without
    a value (YAML null, None) is one that was not given.

    Args:
        path: The YAML file, or None for the defaults.
        env: The environment, of which the variables that begin with `KVTIER_` are read.
        overrides: Settings from flags, nested by name as in the file.

    Raises:
        ConfigError: When a source cannot be read, or a setting is unknown, missing or wrong; the
            message is one line that names where it came from, the setting, the value and what to
            do.
    """
    layers = [read_file(path)] if path else []
    layers += read_environment(env)
    layers.append(Layer("command line", overrides))
    layers = [Layer(layer.origin, _given(layer.settings)) for layer in layers]
    merged: Mapping[str, Any] = {}
    for layer in layers:
        merged = _merge(merged, layer.settings)
    try:
        return NodeConfig.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(_tell(error.errors(), layers)) from error


def _given(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _given(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_given(item) for item in value]
    return value


def _merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> Mapping[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = _merge(below, value)
        else:
            merged[key] = value
    return merged


def _tell(errors: Sequence[ErrorDetails], layers: Sequence[Layer]) -> str:
    # A misspelt name comes before the one that is missing because of it.
    first = min(errors, key=lambda error: error["type"] != "extra_forbidden")
    place = first["loc"]
    within = place[:-1] if first["type"] == "missing" else place
    origin = next((la.origin for la in reversed(layers) if _holds(la.settings, within)), "")
    parts = (origin if within else "", _name(place), _problem(first))
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return ": ".join(part for part in parts if part) + more


def _problem(error: ErrorDetails) -> str:
    place = error["loc"]
    match error["type"]:
        case "value_error":
            return str(error["ctx"]["error"])
        case "extra_forbidden" | "invalid_key":
            known = _model(place[:-1]).model_fields
            near = difflib.get_close_matches(str(place[-1]), known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            return f"unknown setting; {hint}"
        case "missing":
            return f"missing; give it a value. {_description(place)}".rstrip()
        case kind:
            what = _WRONG.get(kind, error["msg"].replace("Input should", "it should"))
            refused = f"{error['input']!r:.80} is refused{what and ': '}{what}"
            return f"{refused}. {_description(place)}".rstrip(" .") + "."


def _holds(settings: Any, place: Place) -> bool:
    for step in place:
        try:
            settings = settings[step]
        except (LookupError, TypeError):
            return False
    return True


def _name(place: Place) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return "".join(steps).removeprefix(".")


def _model(place: Place) -> type[BaseModel]:
    """Return the settings class at a place; the tiers are the only list."""
    model: type[BaseModel] = NodeConfig
    for step in place:
        if step == "tiers":
            model = TierConfig
        elif isinstance(step, str):
            annotation = model.model_fields[step].annotation
            assert isinstance(annotation, type)
            model = annotation
    return model


def _description(place: Place) -> str:
    """Return what a setting means; nothing for a place within a value."""
    if not place or not isinstance(place[-1], str):
        return ""
    return _model(place[:-1]).model_fields[place[-1]].description or ""
