"""Asking before something is taken away."""

import sys

import click

from kvtier.cli.exit import CommandError, ExitCode


def confirm(question: str, *, agreed: bool, what: str = "removes blocks") -> None:
    """Ask at the terminal unless the caller agreed beforehand with --yes.

    Raises:
        CommandError: When there is no terminal to ask at.
        click.Abort: When the answer is no.
    """
    if agreed:
        return
    if not sys.stdin.isatty():
        why = f"this {what}, and there is no terminal to ask at"
        raise CommandError("kvtier", why, "agree with --yes", code=ExitCode.USAGE)
    click.confirm(question, abort=True, err=True)
