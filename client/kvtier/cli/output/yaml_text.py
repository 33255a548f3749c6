"""Values that JSON knows as YAML in block style, without a library of it."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

# Text that no version of YAML takes for anything but text; all other text is quoted.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*(?: [A-Za-z0-9_.,/()-]+)*")
_WORDS = {"y", "yes", "n", "no", "true", "false", "on", "off", "null"}
# Printable in JSON, but not in YAML, or the end of a line there.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def yaml_lines(value: Any) -> Iterator[str]:
    """Yield the lines of a value: mappings, sequences, text, numbers, booleans and None."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _entry(_text(key), inner)
    elif isinstance(value, list | tuple) and value:
        for inner in value:
            yield from _item(inner)
    else:
        yield _scalar(value)


def _entry(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield f"{key}:"
        yield from (f"  {line}" for line in yaml_lines(value))
    elif isinstance(value, list | tuple) and value:
        yield f"{key}:"
        yield from yaml_lines(value)
    else:
        yield f"{key}: {_scalar(value)}"


def _item(value: Any) -> Iterator[str]:
    lead = "- "
    for line in yaml_lines(value):
        yield lead + line
        lead = "  "


def _scalar(value: Any) -> str:
    match value:
        case str():
            return _text(value)
        case float() if not math.isfinite(value):
            return ".nan" if math.isnan(value) else f"{'-' if value < 0 else ''}.inf"
        case float():
            # Without a point 1e-05 is text to YAML 1.1.
            digits, e, power = repr(value).partition("e")
            return f"{digits if '.' in digits or not e else f'{digits}.0'}{e}{power}"
        case Mapping():
            return "{}"
        case list() | tuple():
            return "[]"
        case _:
            return json.dumps(value)


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
