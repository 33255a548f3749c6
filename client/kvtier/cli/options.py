"""The options that every command takes, before or after its name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import click

from kvtier.cli.exit import CommandError, ExitCode

DEFAULT_ENDPOINT = "127.0.0.1:7600"
DEFAULT_TIMEOUT = 5.0
OUTPUTS = ("table", "json", "jsonl")

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Settings:
    """What the shared options say.

    Attributes:
        endpoints: The nodes to ask, as host:port, in the order given.
        named: The endpoints were named on the command line, not by default or environment.
        output: The format of stdout, one of `OUTPUTS`.
        headers: Whether a table begins with a line of titles.
        timeout: Seconds to wait for an answer.
    """

    endpoints: tuple[str, ...] = (DEFAULT_ENDPOINT,)
    named: bool = False
    output: str = "table"
    headers: bool = True
    timeout: float = DEFAULT_TIMEOUT

    @classmethod
    def of_group(cls, ctx: click.Context, values: Mapping[str, Any]) -> Self:
        """Return the settings that stand before the command, over environment and defaults."""
        source = ctx.get_parameter_source("endpoints")
        return cls(
            endpoints=values["endpoints"],
            named=source is click.core.ParameterSource.COMMANDLINE,
            output=values["output"],
            headers=not values["no_headers"],
            timeout=values["timeout"],
        )

    def one_endpoint(self) -> str:
        """Return the only endpoint.

        Raises:
            CommandError: When there are several.
        """
        if len(self.endpoints) > 1:
            what = f"this command speaks to one node, and {len(self.endpoints)} are named"
            raise CommandError("kvtier", what, "name one with --endpoint", code=ExitCode.USAGE)
        return self.endpoints[0]


def _endpoints(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Any:
    names = [name for part in value for name in part.replace(",", " ").split()]
    if not names:
        raise click.BadParameter("no endpoint is named; write host:port", ctx, param)
    return tuple(dict.fromkeys(names))


# Each option: its names, what it is, and what it is before a command's name only.
_OPTIONS: tuple[tuple[tuple[str, ...], dict[str, Any], dict[str, Any]], ...] = (
    (
        ("-e", "--endpoint", "endpoints"),
        {"multiple": True, "metavar": "HOST:PORT", "help": "A node; may be repeated."},
        {
            "default": (DEFAULT_ENDPOINT,),
            "show_default": True,
            "envvar": "KVTIER_ENDPOINTS",
            "show_envvar": True,
            "callback": _endpoints,
        },
    ),
    (
        ("-o", "--output"),
        {"type": click.Choice(OUTPUTS), "help": "The format of stdout."},
        {"default": "table", "show_default": True},
    ),
    (
        ("--no-headers",),
        {"is_flag": True, "default": None, "help": "Leave out a table's titles."},
        {"default": False},
    ),
    (
        ("--timeout",),
        {
            "type": click.FloatRange(min=0, min_open=True),
            "metavar": "SECONDS",
            "help": "Longest wait for an answer.",
        },
        {"default": DEFAULT_TIMEOUT, "show_default": True},
    ),
)


def global_options(command: F) -> F:
    """Add the shared options with their defaults and environment, for the group."""
    for names, what, before in reversed(_OPTIONS):
        command = click.option(*names, **{**what, **before})(command)
    return command


def common_options(command: F) -> F:
    """Add the shared options to a command, where they win over those before its name.

    The command gets the outcome from `pass_settings`.
    """
    for names, what, _ in reversed(_OPTIONS):
        command = click.option(*names, **what, expose_value=False, callback=_override)(command)
    return command


def _override(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value is None or value == ():
        return
    settings: Settings = ctx.obj
    match param.name:
        case "endpoints":
            endpoints = _endpoints(ctx, param, value)
            ctx.obj = replace(settings, endpoints=endpoints, named=True)
        case "no_headers":
            ctx.obj = replace(settings, headers=not value)
        case name:
            assert name is not None
            ctx.obj = replace(settings, **{name: value})


pass_settings = click.make_pass_decorator(Settings)
