"""From sources to a checked configuration, or one line that says what to mend."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kvtier.server.config.models import NodeConfig
from kvtier.server.config.sources import ConfigError, Layer, read_environment, read_file
from kvtier.server.config.values import Settings

Place = tuple[int | str, ...]
Config = TypeVar("Config", bound=Settings)

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
    """Return the configuration of a node, as `load_settings` does."""
    return load_settings(NodeConfig, path, env, overrides)


def load_settings(
    model: type[Config],
    path: Path | None,
    env: Mapping[str, str],
    overrides: Mapping[str, object],
) -> Config:
    """Return a configuration.

    Args:
        model: The settings that there are.
        path: The YAML file, or None for the defaults.
        env: The environment, of which the variables that begin with `KVTIER_` are read.
        overrides: Settings from flags, nested by name as in the file.

    Raises:
        ConfigError: As `gather` and `settle` do.
    """
    return settle(model, gather(path, env, overrides))


def gather(
    path: Path | None, env: Mapping[str, str], overrides: Mapping[str, object]
) -> list[Layer]:
    """Return the settings that each source gives, the one that wins last.

    A setting without a value (YAML null, None) is one that was not given.

    Raises:
        ConfigError: When a source cannot be read; the message is one line that names it.
    """
    layers = [read_file(path)] if path else []
    layers += read_environment(env)
    layers.append(Layer("command line", overrides))
    return [Layer(layer.origin, _given(layer.settings)) for layer in layers]


def settle(model: type[Config], layers: Sequence[Layer]) -> Config:
    """Return the configuration that sources come to.

    Flags win over the environment, and the environment over the file. Groups of settings are
    merged; a list, such as the tiers, is taken whole from the place that wins.

    Args:
        model: The settings that there are.
        layers: What each source gives, from `gather`.

    Raises:
        ConfigError: When a setting is unknown, missing or wrong; the message is one line that
            names where it came from, the setting, the value and what to do.
    """
    merged: Mapping[str, Any] = {}
    for layer in layers:
        merged = _merge(merged, layer.settings)
    try:
        return model.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(_tell(model, error.errors(), layers)) from error


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


def _tell(model: type[BaseModel], errors: Sequence[ErrorDetails], layers: Sequence[Layer]) -> str:
    # A misspelt name comes before the one that is missing because of it.
    first = min(errors, key=lambda error: error["type"] != "extra_forbidden")
    place = first["loc"]
    within = place[:-1] if first["type"] == "missing" else place
    origin = next((la.origin for la in reversed(layers) if _holds(la.settings, within)), "")
    parts = (origin if within else "", place_name(place), _problem(model, first))
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return ": ".join(part for part in parts if part) + more


def _problem(model: type[BaseModel], error: ErrorDetails) -> str:
    place = error["loc"]
    match error["type"]:
        case "value_error":
            return str(error["ctx"]["error"])
        case "extra_forbidden" | "invalid_key":
            known = _model(model, place[:-1]).model_fields
            near = difflib.get_close_matches(str(place[-1]), known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            return f"unknown setting; {hint}"
        case "missing":
            return f"missing; give it a value. {_description(model, place)}".rstrip()
        case kind:
            what = _WRONG.get(kind, error["msg"].replace("Input should", "it should"))
            refused = f"{error['input']!r:.80} is refused{what and ': '}{what}"
            return f"{refused}. {_description(model, place)}".rstrip(" .") + "."


def _holds(settings: Any, place: Place) -> bool:
    for step in place:
        try:
            settings = settings[step]
        except (LookupError, TypeError):
            return False
    return True


def place_name(place: Place) -> str:
    """Return where a setting stands, such as `tiers[0].capacity`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return "".join(steps).removeprefix(".")


def _model(model: type[BaseModel], place: Place) -> type[BaseModel]:
    """Return the settings class at a place, or in the list there."""
    for step in place:
        if isinstance(step, str):
            annotation = model.model_fields[step].annotation
            of_list = get_args(annotation)
            of = of_list[0] if of_list else annotation
            assert isinstance(of, type)
            model = of
    return model


def _description(model: type[BaseModel], place: Place) -> str:
    """Return what a setting means; nothing for a place within a value."""
    if not place or not isinstance(place[-1], str):
        return ""
    return _model(model, place[:-1]).model_fields[place[-1]].description or ""
