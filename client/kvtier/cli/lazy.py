"""A click group that imports a command only when it is used."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem


class Entry(NamedTuple):
    """Where a command lives, and its line in the group's help."""

    module: str
    help: str
    section: str = "Commands"


class LazyGroup(click.Group):
    """A group whose help is written from a table, so that `--help` imports no command."""

    def __init__(
        self, name: str | None = None, *, entries: Mapping[str, Entry], **kwargs: Any
    ) -> None:
        super().__init__(name, no_args_is_help=False, **kwargs)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        del ctx
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command and return it; None when there is none of that name."""
        del ctx
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        command = import_module(f"kvtier.cli.commands.{entry.module}").command
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands, from the table too, and the group's own options."""
        found = [
            CompletionItem(name, help=entry.help)
            for name, entry in self.entries.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section."""
        del ctx
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self.entries.items():
            sections.setdefault(entry.section, []).append((name, entry.help))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)
