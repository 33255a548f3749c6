"""Where settings come from: a YAML file and the environment."""

import re
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

PREFIX = "KVTIER_"

_OF_THE_COMMAND_LINE = frozenset(
    {
        "KVTIER_ENDPOINTS",
        "KVTIER_CACERT",
        "KVTIER_CERT",
        "KVTIER_KEY",
        "KVTIER_TOKEN_FILE",
        "KVTIER_TLS_SERVER_NAME",
        "KVTIER_USE_TLS",
    }
)
# Kubernetes sets these in every pod of a namespace that has a service named kvtier or kvtier-*.
_SERVICE_LINK = re.compile(
    r"KVTIER_(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_.*)?)?)"
)


class ConfigError(Exception):
    """The configuration cannot be used; the message is one line: where, what, what to do."""


class Layer(NamedTuple):
    """Settings from one place.

    Attributes:
        origin: The place, as people know it: a file, a variable, the command line.
        settings: Nested settings by name.
    """

    origin: str
    settings: Mapping[str, Any]


def read_file(path: Path) -> Layer:
    """Read a YAML file.

    Raises:
        ConfigError: When it cannot be read, is not YAML, or holds anything but settings by name.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text; save it as such") from error
    settings = _parse(text, str(path))
    if not isinstance(settings, dict | None):
        raise ConfigError(f"{path}: holds no settings; write lines such as 'node_id: node-1'")
    return Layer(str(path), settings or {})


def read_environment(environment: Mapping[str, str]) -> Iterator[Layer]:
    """Read the variables that begin with `KVTIER_`, one layer each, in order of their names.

    `KVTIER_EVENTS__LINGER` is the setting `linger` of `events`. A list or a group of settings is
    given whole, as YAML in brackets or braces.

    Raises:
        ConfigError: When such a value is not YAML.
    """
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name in _OF_THE_COMMAND_LINE:
            continue
        if _SERVICE_LINK.fullmatch(name):
            continue
        value: Any = environment[name]
        if value.lstrip()[:1] in {"[", "{"}:
            value = _parse(value, name)
        for key in reversed(name.removeprefix(PREFIX).lower().split("__")):
            value = {key: value}
        yield Layer(name, value)


class _Loader(yaml.SafeLoader):
    """YAML in which no key is given twice, since one of the two would be lost unseen."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"{key.value!r} is given twice", problem_mark=key.start_mark
                )
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else key)
        return super().construct_mapping(node, deep)


def _parse(text: str, origin: str) -> Any:
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a subclass of the safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError(f"{origin}: is not valid YAML: {place}{error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{origin}: is not valid YAML: {' '.join(str(error).split())}") from error
