"""The page of every command, from its own help."""

from collections.abc import Iterator
from typing import Any

import click

from kvtier.cli.lazy import LazyGroup
from kvtier.cli.main import kvtier

_WIDTH = 100
_HEAD = """# Every command

This page is what `kvtier COMMAND --help` prints (`make docs`). What `serve` and `proxy` take is
told in [configuration.md](configuration.md).
"""


def page() -> str:
    """Return the page."""
    root = click.Context(kvtier, info_name="kvtier", **_settings(kvtier))
    return "\n".join([_HEAD, *_sections(kvtier, root)])


def _sections(command: click.Command, ctx: click.Context) -> Iterator[str]:
    """Yield the section of a command, then those of the commands in it."""
    yield f"## `{ctx.command_path}`\n\n```text\n{command.get_help(ctx)}\n```\n"
    if isinstance(command, LazyGroup):
        for name in command.entries:
            inner = command.get_command(ctx, name)
            assert inner is not None
            settings = _settings(inner)
            yield from _sections(inner, click.Context(inner, ctx, name, **settings))


def _settings(command: click.Command) -> dict[str, Any]:
    """Return what a command's context is made with, at a width that no terminal decides."""
    return {**command.context_settings, "terminal_width": _WIDTH}
