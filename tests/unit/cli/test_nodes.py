"""Nodes of the command's own, and progress, without starting anything."""

import sys
from importlib.util import find_spec
from typing import Any

import pytest

from kvtier.cli.main import main
from kvtier.cli.progress import progress


@pytest.mark.parametrize(
    "command", [["serve"], ["proxy"], ["config", "check"], ["demo", "--requests", "1"]]
)
def test_a_light_installation_says_how_to_get_a_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    """Without the server's packages the error names them and the command that installs them."""

    def find(name: str, *rest: Any) -> Any:
        return None if name in {"numpy", "yaml"} else find_spec(name, *rest)

    monkeypatch.setattr("kvtier.cli.nodes.find_spec", find)

    code = main(command)

    out, err = capsys.readouterr()
    assert code == 1
    assert err == (
        "error: kvtier: a node cannot run here: numpy, yaml missing; "
        "install it with: pip install 'kvtier[server]'\n"
    )
    assert "ok" not in out


@pytest.mark.parametrize(
    ("name", "module"), [("serve", "kvtier.server"), ("proxy", "kvtier.proxy")]
)
def test_a_server_gets_its_arguments(
    monkeypatch: pytest.MonkeyPatch, name: str, module: str
) -> None:
    """The command becomes the server's process, with every argument as it stands."""
    calls = []
    monkeypatch.setattr("os.execv", lambda path, arguments: calls.append((path, arguments)))

    main([name, "--config", "node.yaml", "--help", "-x"])

    command = (sys.executable, "-m", module, "--config", "node.yaml", "--help", "-x")
    assert calls == [(sys.executable, command)]


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        ("check", "kvtier.server --check"),
        ("check n.yaml", "kvtier.server --check --config n.yaml"),
        ("check --proxy n.yaml", "kvtier.proxy --check --config n.yaml"),
        ("show n.yaml", "kvtier.server --show --config n.yaml"),
        ("show --proxy -o yaml", "kvtier.proxy --show"),
        ("show -o json", "kvtier.server --show-json"),
        ("schema", "kvtier.server --schema"),
        ("schema --proxy", "kvtier.proxy --schema"),
    ],
)
def test_a_configuration_is_for_the_server_to_tell_of(
    monkeypatch: pytest.MonkeyPatch, given: str, becomes: str
) -> None:
    """What checks and shows it is what would run."""
    calls = []
    monkeypatch.setattr("os.execv", lambda path, arguments: calls.append((path, arguments)))

    assert main(["config", *given.split()]) == 0

    assert calls == [(sys.executable, (sys.executable, "-m", *becomes.split()))]


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_is_for_terminals_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool
) -> None:
    """A bar is drawn on stderr at a terminal; a pipe or a log gets nothing, and stdout never."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)

    with progress("replaying", 4) as advance:
        for _ in range(4):
            advance(1)

    out, err = capsys.readouterr()
    assert out == ""
    assert ("4/4" in err) == terminal
    assert bool(err) == terminal
