"""The options that every command takes, before or after its name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import click

from kvtier.cli.credentials import CredentialOptions
from kvtier.cli.exit import CommandError, ExitCode

if TYPE_CHECKING:
    from kvtier.wire.credentials import Credentials

DEFAULT_ENDPOINT = "127.0.0.1:7600"
DEFAULT_TIMEOUT = 5.0
OUTPUTS = ("table", "wide", "json", "jsonl", "yaml", "name")
COLORS = ("auto", "always", "never")

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
        verbose: Whether an error line tells everything that is known.
        identity: TLS and who the caller is.
        color: Whether tables are coloured, one of `COLORS`.
    """

    endpoints: tuple[str, ...] = (DEFAULT_ENDPOINT,)
    named: bool = False
    output: str = "table"
    headers: bool = True
    timeout: float = DEFAULT_TIMEOUT
    verbose: bool = False
    identity: CredentialOptions = field(default_factory=CredentialOptions)
    color: str = "auto"

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
            verbose=values["verbose"],
            identity=CredentialOptions(**{name: values[name] for name in IDENTITY}),
            color=values["color"],
        )

    @cached_property
    def credentials(self) -> "Credentials | None":
        """TLS and who the caller is; None for plaintext and nobody.

        Raises:
            CommandError: When a file cannot be used.
        """
        return self.identity.load()

    @property
    def for_people(self) -> bool:
        """Whether stdout is for people to read, not for programs."""
        return self.output in {"table", "wide"}

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


class _Option(NamedTuple):
    """An option's names, what it is, and what it is besides before a command's name."""

    names: tuple[str, ...]
    what: dict[str, Any]
    before: dict[str, Any]


_ENDPOINT = _Option(
    ("-e", "--endpoint", "endpoints"),
    {"multiple": True, "metavar": "HOST:PORT", "help": "A node; may be repeated."},
    {
        "default": (DEFAULT_ENDPOINT,),
        "show_default": True,
        "envvar": "KVTIER_ENDPOINTS",
        "show_envvar": True,
        "callback": _endpoints,
    },
)
_OUTPUT = _Option(
    ("-o", "--output"),
    {
        "type": click.Choice(OUTPUTS),
        "help": "The format of stdout; wide is a table of more columns, name KIND/NAME alone.",
    },
    {"default": "table", "show_default": True},
)
_NO_HEADERS = _Option(
    ("--no-headers",),
    {"is_flag": True, "default": None, "help": "Leave out a table's titles."},
    {"default": False},
)
_TIMEOUT = _Option(
    ("--timeout",),
    {
        "type": click.FloatRange(min=0, min_open=True),
        "metavar": "SECONDS",
        "help": "Longest wait for an answer.",
    },
    {"default": DEFAULT_TIMEOUT, "show_default": True},
)
_VERBOSE = _Option(
    ("-v", "--verbose"),
    {"is_flag": True, "default": None, "help": "Tell all that is known of an error."},
    {"default": False},
)


def _file(name: str, envvar: str, text: str) -> _Option:
    kind = click.Path(path_type=Path)
    return _Option((name,), {"type": kind, "metavar": "FILE", "help": text}, _from(envvar))


def _from(envvar: str) -> dict[str, Any]:
    return {"envvar": envvar, "show_envvar": True}


_IDENTITY = (
    _Option(
        ("--tls",),
        {
            "is_flag": True,
            "default": None,
            "help": "Use TLS, with the authorities of the system unless --cacert names others.",
        },
        {"default": False, **_from("KVTIER_USE_TLS")},
    ),
    _file(
        "--cacert", "KVTIER_CACERT", "The authorities of the nodes' certificates, PEM; with TLS."
    ),
    _file("--cert", "KVTIER_CERT", "The certificate to show, PEM; with --key and TLS."),
    _file("--key", "KVTIER_KEY", "The private key of --cert, PEM."),
    _file("--token-file", "KVTIER_TOKEN_FILE", "A file with a bearer token to show."),
    _Option(
        ("--tls-server-name",),
        {"metavar": "NAME", "help": "The name that a node's certificate has, if not its host's."},
        {"default": "", **_from("KVTIER_TLS_SERVER_NAME")},
    ),
)
IDENTITY = tuple(option.names[0].removeprefix("--").replace("-", "_") for option in _IDENTITY)
_COLOR = _Option(
    ("--color",),
    {
        "type": click.Choice(COLORS),
        "help": "Colour what needs attention; auto is on a terminal, unless NO_COLOR is set.",
    },
    {"default": "auto", "show_default": True},
)
_ALL = (_ENDPOINT, _OUTPUT, _NO_HEADERS, _TIMEOUT, *_IDENTITY, _VERBOSE, _COLOR)


def global_options(command: F) -> F:
    """Add the shared options with their defaults and environment, for the group."""
    for option in reversed(_ALL):
        command = click.option(*option.names, **{**option.what, **option.before})(command)
    return command


def common_options(command: F) -> F:
    """Add the shared options to a command, where they win over those before its name.

    The command gets the outcome from `pass_settings`.
    """
    for option in reversed(_ALL):
        command = _after_the_name(option, command)
    return command


def output_option(command: F) -> F:
    """Add only the format, to a command that speaks to no node of the user's."""
    return _after_the_name(_OUTPUT, command)


def _after_the_name(option: _Option, command: F) -> F:
    return click.option(*option.names, **option.what, expose_value=False, callback=_override)(
        command
    )


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
        case name if name in IDENTITY:
            ctx.obj = replace(settings, identity=replace(settings.identity, **{name: value}))
        case name:
            assert name is not None
            ctx.obj = replace(settings, **{name: value})


pass_settings = click.make_pass_decorator(Settings)
