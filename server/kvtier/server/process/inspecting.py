"""Telling of a server's settings in place of serving with them."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from kvtier.server.config import ConfigError
from kvtier.server.config.effective import as_json, as_yaml
from kvtier.server.config.load import gather, settle
from kvtier.server.config.schema import schema_of
from kvtier.server.config.values import Settings
from kvtier.server.process.running import USAGE_ERROR, fail

Config = TypeVar("Config", bound=Settings)
F = TypeVar("F", bound=Callable[..., Any])


def inspect_options(command: F) -> F:
    """Add `inspect`, for `settings_to_serve_with`: --check, and what `kvtier config` asks for."""
    for name, value, what in (
        ("--schema", "schema", "Print the JSON schema of the settings, and start nothing."),
        ("--show-json", "json", "Print the settings as JSON, and start nothing."),
        ("--show", "yaml", "Print the settings as YAML, and start nothing."),
        ("--check", "check", "Check settings and certificates, and start nothing."),
    ):
        option = click.option(
            name, "inspect", flag_value=value, help=what, hidden=name != "--check"
        )
        command = option(command)
    return command


def settings_to_serve_with(
    model: type[Config],
    path: Path | None,
    flags: Mapping[str, object],
    inspect: str | None,
    checked: Callable[[Config], str],
) -> Config:
    """Return a server's settings; or tell what was asked for on stdout, and end the process.

    Settings that are wrong end it with one line on stderr.

    Args:
        model: The settings that there are.
        path: The YAML file, or None.
        flags: Settings from the command line.
        inspect: What to tell, by `inspect_options`; None to serve.
        checked: Checks what only the server can, and returns what to say of good settings.
    """
    if inspect == "schema":
        _tell(json.dumps(schema_of(model), indent=1) + "\n")
    try:
        layers = gather(path, os.environ, flags)
        settings = settle(model, layers)
        match inspect:
            case "check":
                _tell(checked(settings))
            case "yaml":
                _tell(as_yaml(settings, layers))
            case "json":
                _tell(as_json(settings, layers))
    except ConfigError as error:
        fail(error, USAGE_ERROR)
    return settings


def _tell(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
    sys.exit(0)
