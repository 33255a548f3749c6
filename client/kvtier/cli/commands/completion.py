"""`kvtier completion`."""

import click
from click.shell_completion import get_completion_class

from kvtier.cli.completing import NAME, VARIABLE

_SHELLS = ("bash", "zsh", "fish")

_EPILOG = """\b
To have it in every new shell:
  bash  echo 'eval "$(kvtier completion bash)"' >> ~/.bashrc
  zsh   echo 'eval "$(kvtier completion zsh)"' >> ~/.zshrc
  fish  kvtier completion fish > ~/.config/fish/completions/kvtier.fish
"""


@click.command(epilog=_EPILOG)
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print what makes a shell complete kvtier's commands and options.

    A shell that has read it completes with TAB.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, NAME, VARIABLE).source())
