"""Completing a command line in a shell."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvtier.cli.completing import complete
from kvtier.cli.main import kvtier, main

BASH = """
eval "$(kvtier completion bash)"
complete -p kvtier
for words in "$@"; do
    COMP_WORDS=($words); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    [[ $words == *" " ]] && COMP_CWORD=${#COMP_WORDS[@]}
    COMPREPLY=(); _kvtier_completion kvtier
    echo "${COMPREPLY[*]}"
done
"""


def completed(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """Ask as bash does for what may stand in place of the last word."""
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    assert complete(kvtier, {"_KVTIER_COMPLETE": "bash_complete"}) == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("kvtier ge", "get"),
        ("kvtier get n", "nodes namespaces"),
        ("kvtier get tiers -o y", "yaml"),
        ("kvtier -o json describe ", "node block"),
        ("kvtier watch --medium ", "gpu cpu fs obj"),
        ("kvtier completion ", "bash zsh fish"),
        ("kvtier get blocks --lim", "--limit"),
    ],
)
def test_commands_options_and_choices_are_completed(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    expected: str,
) -> None:
    """Also behind options that stand before the command."""
    completed(monkeypatch, words)

    out, err = capsys.readouterr()
    assert [line.partition(",")[2] for line in out.splitlines()] == expected.split()
    assert err == ""


def test_commands_are_completed_without_being_imported() -> None:
    """So that TAB answers as fast as --help."""
    script = (
        "import sys; from kvtier.cli.main import main; code = main([]);"
        "print(code, {'grpc', 'asyncio', 'kvtier.client'} & sys.modules.keys())"
    )
    asked = {"COMP_WORDS": "kvtier ", "COMP_CWORD": "1", "_KVTIER_COMPLETE": "bash_complete"}

    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert "plain,describe" in done.stdout.splitlines()
    assert done.stdout.splitlines()[-1] == "0 set()"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str, capfd: pytest.CaptureFixture[str]) -> None:
    """It asks kvtier by the variable that kvtier listens to."""
    assert main(["completion", shell]) == 0

    assert f"_KVTIER_COMPLETE={shell}_complete" in capfd.readouterr().out


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_with_the_script() -> None:
    """As a person has it who put the line of the help into the shell's start file."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    done = subprocess.run(
        ["bash", "-c", BASH, "bash", "kvtier get t", "kvtier get tiers -o n"],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout.splitlines()[1:] == ["tiers", "name"]
    assert "_kvtier_completion kvtier" in done.stdout.splitlines()[0]
