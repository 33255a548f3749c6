"""The part of the schema that is the configuration file's, from the models that read it."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from kvtier.proxy.config import ProxyConfig
from kvtier.server.config import NodeConfig
from kvtier.server.config.models import MAX_TIERS
from kvtier.server.config.schema import LIMITS
from kvtier.server.config.security import GrantConfig
from kvtier.server.config.tier import ONLY_FOR
from kvtier.wire.sizes import parse_size

_MODELS = (NodeConfig, ProxyConfig, GrantConfig)
# Settings that the chart makes of its other values, or of what Kubernetes knows.
OF_THE_CHART = {
    "NodeConfig": {
        "node_id",
        "listen",
        "insecure",
        "tls",
        "auth",
        "connect",
        "health_listen",
        "metrics_listen",
    },
    "TierConfig": {"shm_dir"},
}
OF_THE_CHART["ProxyConfig"] = OF_THE_CHART["NodeConfig"]

SIZE: JsonSchemaValue = {
    "description": "Bytes, or a number with a unit: KB, MB, GB, TB or KiB, MiB, GiB, TiB.",
    "oneOf": [
        {"type": "integer", "minimum": 0},
        {
            "type": "string",
            "pattern": "^[0-9]+([.][0-9]+)?([eE][+]?[0-9]+)? ?(([kKmMgGtT][iI]?)?[bB])?$",
        },
    ],
}
_REFERENCE = "#/definitions/{model}"
# What the models say of texts in code.
_TEXTS = {
    "directory": "^/",
    "url": "^s3://[^/]+/.+$",
    "endpoint": "^https?://[^@?#\\s]+$",
}


class _Generator(GenerateJsonSchema):
    """Sizes are texts, too, and no value stands for none: Helm removes those."""

    def function_before_schema(
        self, schema: core_schema.BeforeValidatorFunctionSchema
    ) -> JsonSchemaValue:
        if schema["function"]["function"] is parse_size:
            return {"oneOf": SIZE["oneOf"]}
        return super().function_before_schema(schema)

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def definitions() -> dict[str, Any]:
    """Return the schemas of the models by name; those of the files are NodeConfig and ProxyConfig.

    They are of draft 7, which every version of Helm knows.
    """
    found: dict[str, Any] = {}
    for model in _MODELS:
        schema = model.model_json_schema(ref_template=_REFERENCE, schema_generator=_Generator)
        found |= schema.pop("$defs", {}) | {model.__name__: schema}
    for name, taken in OF_THE_CHART.items():
        _remove(found[name], taken)
    del found["ProxyConfig"]["required"]
    found["NodeConfig"]["properties"]["tiers"] |= {"minItems": 1, "maxItems": MAX_TIERS}
    found["TierConfig"] |= _tier_rules()
    used = _named({model.__name__ for model in _MODELS}, found)
    return {name: _plain(found[name]) for name in sorted(used)}


def _remove(schema: dict[str, Any], names: set[str]) -> None:
    for name in names:
        schema["properties"].pop(name, None)


def _tier_rules() -> dict[str, Any]:
    """Return what the models check of a tier beyond single settings."""
    by_medium = []
    for medium in ("gpu", "cpu", "fs", "obj"):
        foreign = [name for name, media in ONLY_FOR.items() if medium not in media]
        then = {"properties": {name: False for name in foreign if name != "shm_dir"}}
        needed = {"fs": ["directory"], "obj": ["url"]}.get(medium, [])
        condition = {"properties": {"medium": {"const": medium}}}
        by_medium.append({"if": condition, "then": then | {"required": needed}})
    threshold = {"properties": {"store_threshold": {"minimum": 2}}, "required": ["store_threshold"]}
    needs = {
        "demote_wait": ["on_evict"],
        "free_target": ["on_evict"],
        "store_tracker": threshold,
    }
    texts = {"properties": {name: {"pattern": pattern} for name, pattern in _TEXTS.items()}}
    return {"dependencies": needs, "allOf": [texts, *by_medium]}


def _named(names: set[str], found: dict[str, Any]) -> set[str]:
    """Return the names of schemas that these are made of, themselves included."""
    text = {name: str(schema) for name, schema in found.items()}
    while True:
        inner = {n for n in found if any(f"'#/definitions/{n}'" in text[name] for name in names)}
        if inner <= names:
            return names
        names = names | inner


def _plain(schema: Any) -> Any:
    """Return a schema in the words of JSON schemas, without titles that repeat a name."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    idle = {key for key in ("title", "format") if isinstance(schema.get(key), str)}
    if "default" in schema and schema["default"] is None:
        idle.add("default")
    return {LIMITS.get(k, k): _plain(value) for k, value in schema.items() if k not in idle}
