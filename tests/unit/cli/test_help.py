"""Finding one's way: help, and how fast it comes."""

import subprocess
import sys
from pathlib import Path
from time import perf_counter

import click
import pytest

import kvtier.cli.commands
from kvtier.cli.commands import config, describe, get
from kvtier.cli.lazy import LazyGroup
from kvtier.cli.main import kvtier as root
from kvtier.cli.main import main

GROUPS = [root, get.command, describe.command, config.command]
SCRIPT = """
import sys
from kvtier.cli.main import main
main([{argument!r}])
heavy = {{"grpc", "google.protobuf", "structlog", "kvtier.client", "asyncio"}}
print("HEAVY", sorted(heavy & sys.modules.keys()))
"""


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, timeout=30
    )


@pytest.mark.parametrize("argument", ["--help", "version"])
def test_help_and_version_import_nothing_heavy(argument: str) -> None:
    """`kvtier --help` and `kvtier version` do without gRPC, protobuf, structlog and the client."""
    result = _python("-c", SCRIPT.format(argument=argument))

    assert result.stdout.splitlines()[-1] == "HEAVY []"


def test_help_answers_at_once() -> None:
    """`kvtier --help` comes in a fraction of a second; the bound leaves room for a busy machine."""

    def measure() -> float:
        start = perf_counter()
        _python("-m", "kvtier.cli", "--help")
        return perf_counter() - start

    best = min(measure() for _ in range(5))

    assert best < 0.6


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    """`kvtier` alone tells on stdout what there is."""
    code = main([])

    assert code == 0
    assert "Usage: kvtier" in capsys.readouterr().out


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: str(group.name))
def test_the_lines_of_a_groups_help_are_those_of_its_commands(group: click.Command) -> None:
    """The table that help is written from says what each command says of itself."""
    assert isinstance(group, LazyGroup)
    ctx = click.Context(group)

    for name, entry in group.entries.items():
        command = group.get_command(ctx, name)

        assert command is not None
        assert entry.help == command.get_short_help_str(limit=200), name


def test_every_command_module_can_be_reached() -> None:
    """No module lies among the commands that no group leads to."""
    entries = [e.module for g in GROUPS if isinstance(g, LazyGroup) for e in g.entries.values()]
    (folder,) = map(Path, kvtier.cli.commands.__path__)

    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}

    assert sorted(entries) == sorted(modules)


@pytest.mark.parametrize(
    "path",
    [
        [*prefix, name]
        for prefix, group in (
            ([], root),
            (["get"], get.command),
            (["describe"], describe.command),
            (["config"], config.command),
        )
        if isinstance(group, LazyGroup)
        for name in group.entries
        if name not in {"serve", "proxy"}
    ],
    ids=" ".join,
)
def test_every_command_has_help(path: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Each command tells its use and exits with 0."""
    code = main([*path, "--help"])

    assert code == 0
    assert f"Usage: kvtier {' '.join(path)}" in capsys.readouterr().out
