"""Answering a shell that completes a command line."""

import os
from collections.abc import Mapping

import click
from click.shell_completion import shell_complete

NAME = "kvtier"
VARIABLE = "_KVTIER_COMPLETE"
"""The environment variable by which the script that a shell has read asks."""


def complete(command: click.Command, environment: Mapping[str, str] = os.environ) -> int | None:
    """Answer a shell that asks, and return the exit code; None when none asks."""
    asked = environment.get(VARIABLE)
    return shell_complete(command, {}, NAME, VARIABLE, asked) if asked else None
