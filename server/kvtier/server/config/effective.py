"""What settings come to: every value, and where it came from."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from kvtier.server.config.load import Place, place_name
from kvtier.server.config.sources import Layer
from kvtier.server.config.values import Settings

DEFAULT = "default"
_WIDEST = 1 << 20


def as_yaml(settings: Settings, layers: Sequence[Layer]) -> str:
    """Return settings as a file that gives them again, with where each came from as a comment."""
    origins = dict(_origins(settings, layers, ()))
    lines = _lines(settings.model_dump(mode="json"), (), origins)
    return "".join(f"{line}\n" for line in lines)


def as_json(settings: Settings, layers: Sequence[Layer]) -> str:
    """Return `settings`, sizes in bytes, and `origins`: of each that was given, by its place."""
    origins = {
        place_name(place): origin
        for place, origin in _origins(settings, layers, ())
        if origin != DEFAULT
    }
    told = {"settings": settings.model_dump(), "origins": origins}
    return json.dumps(told, indent=1, default=str) + "\n"


def _origins(
    settings: Settings, layers: Sequence[tuple[str, Any]], place: Place
) -> Iterator[tuple[Place, str]]:
    """Yield where each value came from; a list of groups is from where the whole list came."""
    for name, value in settings:
        here = (*place, name)
        given = [
            (origin, group[name])
            for origin, group in layers
            if isinstance(group, Mapping) and name in group
        ]
        if isinstance(value, Settings):
            yield from _origins(value, given, here)
        elif isinstance(value, tuple) and value and isinstance(value[0], Settings):
            for number, item in enumerate(value):
                whole = [(origin, items[number]) for origin, items in given[-1:]]
                yield from _origins(item, whole, (*here, number))
        else:
            yield here, given[-1][0] if given else DEFAULT


def _lines(
    settings: Mapping[str, Any], place: Place, origins: Mapping[Place, str]
) -> Iterator[str]:
    for name, value in settings.items():
        here = (*place, name)
        if here in origins:
            yield f"{name}: {_flow(value)}  # {origins[here]}"
            continue
        yield f"{name}:"
        if isinstance(value, Mapping):
            yield from (f"  {line}" for line in _lines(value, here, origins))
            continue
        for number, item in enumerate(value):
            first, *others = _lines(item, (*here, number), origins)
            yield from (f"  - {first}", *(f"    {line}" for line in others))


def _flow(value: Any) -> str:
    """Return a value in one line of YAML."""
    flow = yaml.safe_dump([value], default_flow_style=True, width=_WIDEST, allow_unicode=True)
    return flow.strip()[1:-1]
