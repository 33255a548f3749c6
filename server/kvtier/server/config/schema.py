"""The JSON schema of a configuration file, for editors."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from kvtier.server.config.values import Settings, in_any_case
from kvtier.wire.sizes import parse_size

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SPACE = r"\s*"
_WHOLE = rf"^{_SPACE}[+-]?[0-9_]+(\.0*)?{_SPACE}$"
_NUMBER = rf"^{_SPACE}[+-]?([0-9_]+\.?[0-9_]*|\.[0-9_]+)([eE][+-]?[0-9]+)?{_SPACE}$"
_SIZE = (
    rf"^{_SPACE}[0-9]{{1,20}}(\.[0-9]{{1,20}})?([eE]\+?[0-9]{{1,2}})?"
    rf" ?([bB]|[kKmMgGtT][iI]?[bB])?{_SPACE}$"
)
_SWITCH = ("0", "1", "f", "false", "n", "no", "off", "on", "t", "true", "y", "yes")

# pydantic leaves limits behind a validator under its own names.
LIMITS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
}


def schema_of(model: type[Settings]) -> dict[str, Any]:
    """Return what a file of settings may hold; limits of several together are not in it.

    Values are as they are written: a size has a unit or none, a number may stand in quotes, and
    null is for a setting that is not given.
    """
    made = _with_limits(model.model_json_schema(schema_generator=_AsWritten))
    for group in (made, *made.get("$defs", {}).values()):
        _let_go_without(group)
    return {"$schema": _DIALECT, **made}


def _with_limits(made: Any) -> Any:
    if isinstance(made, dict):
        return {LIMITS.get(name, name): _with_limits(value) for name, value in made.items()}
    return [_with_limits(item) for item in made] if isinstance(made, list) else made


def _let_go_without(group: dict[str, Any]) -> None:
    for name, setting in group.get("properties", {}).items():
        if name not in group.get("required", ()) and {"type": "null"} not in setting.get(
            "anyOf", ()
        ):
            told = {key: setting.pop(key) for key in ("description", "default") if key in setting}
            group["properties"][name] = {"anyOf": [setting, {"type": "null"}], **told}


class _AsWritten(GenerateJsonSchema):
    """Tells of each value all the ways to write it."""

    def int_schema(self, schema: core_schema.IntSchema) -> JsonSchemaValue:
        return _or_text(super().int_schema(schema), _WHOLE)

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        return _or_text(super().float_schema(schema), _NUMBER)

    def bool_schema(self, schema: core_schema.BoolSchema) -> JsonSchemaValue:
        ways = [super().bool_schema(schema), {"enum": [0, 1]}, _text(_in_any_case(_SWITCH))]
        return {"anyOf": ways}

    def function_before_schema(
        self, schema: core_schema.BeforeValidatorFunctionSchema
    ) -> JsonSchemaValue:
        made, function = super().function_before_schema(schema), schema["function"]["function"]
        if function is parse_size:
            return _or_text(made["anyOf"][0], _SIZE)
        return _or_text(made, _in_any_case(made["enum"])) if function is in_any_case else made

    def field_title_should_be_set(self, schema: Any) -> bool:
        del schema
        return False


def _or_text(schema: Mapping[str, Any], pattern: str) -> JsonSchemaValue:
    return {"anyOf": [dict(schema), _text(pattern)]}


def _in_any_case(words: Iterable[str]) -> str:
    letters = ("".join(f"[{c.lower()}{c.upper()}]" for c in word) for word in words)
    return f"^({'|'.join(letters)})$"


def _text(pattern: str) -> JsonSchemaValue:
    return {"type": "string", "pattern": pattern}
