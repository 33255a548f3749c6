"""The two nodes of a comparison: who they are, and what they list."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import click

from kvtier.cli.comparing.block_line import BlockLine
from kvtier.cli.comparing.parts import Parts
from kvtier.cli.connect import ask_all, connected, namespaces_by_name
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.options import Settings
from kvtier.cli.tiers import recovering_note, recovering_tiers
from kvtier.client import NodeClient

_PAGE = 5000


class Wanted(NamedTuple):
    """What is compared: one namespace by name or all, some tiers or all, tier by tier or not."""

    namespace: str | None
    tiers: tuple[str, ...]
    by_tier: bool


class Side(NamedTuple):
    """One of the two nodes: what the user calls it, and its namespaces' names by fingerprint."""

    name: str
    namespaces: dict[str, str]


async def endpoints_of(settings: Settings, nodes: Sequence[str]) -> list[str]:
    """Return the endpoints of nodes that are named by endpoint, or by the id of a known one.

    Raises:
        CommandError: When none of the endpoints that the settings name has such an id.
    """
    if all(":" in node for node in nodes):
        return list(nodes)
    answers = await ask_all(settings, NodeClient.get_node)
    ids = {answer.value.node_id: answer.endpoint for answer in answers if answer.value is not None}
    for node in nodes:
        if ":" not in node and node not in ids:
            failure = next((answer.error for answer in answers if answer.error is not None), None)
            there = f"there are {', '.join(sorted(ids))}" if ids else "none answers"
            what = f"no endpoint is of node {node!r}; {there}"
            todo = str(failure or "name its endpoint, HOST:PORT")
            code = ExitCode.NOT_FOUND if failure is None else failure.code
            raise CommandError("kvtier", what, todo, code=code)
    return [node if ":" in node else ids[node] for node in nodes]


async def list_both(
    settings: Settings, nodes: Sequence[str], wanted: Wanted, parts: Parts
) -> list[Side]:
    """Take what two nodes list into the parts, and return the two.

    Raises:
        CommandError: When one cannot be listed, or neither knows the namespace.
    """
    endpoints = await endpoints_of(settings, nodes)
    known = await asyncio.gather(
        *(
            _list(settings, endpoint, wanted, partial(parts.add, number))
            for number, endpoint in enumerate(endpoints)
        )
    )
    if wanted.namespace is not None and not any(known):
        what = f"namespace {wanted.namespace!r} is registered at neither"
        raise CommandError("kvtier", what, code=ExitCode.NOT_FOUND, reason="NAMESPACE_UNKNOWN")
    return [Side(node, namespaces) for node, namespaces in zip(nodes, known, strict=True)]


async def _list(
    settings: Settings, endpoint: str, wanted: Wanted, add: Callable[[str], None]
) -> dict[str, str]:
    """List what a node has; return its namespaces' names by fingerprint."""
    async with connected(endpoint, settings) as client:
        known = {
            each.fingerprint: namespace
            for namespace, each in (await namespaces_by_name(client)).items()
            if wanted.namespace in {None, namespace}
        }
        recovering = await recovering_tiers(client, wanted.tiers)
        only = [b""] if wanted.namespace is None else list(known)
        for namespace in only:
            blocks = client.list_blocks(tiers=wanted.tiers, namespace=namespace, page_size=_PAGE)
            async for block in blocks:
                add(BlockLine.of(block, by_tier=wanted.by_tier).line())
        if recovering:
            click.echo(f"note: {recovering_note(endpoint, recovering)}", err=True)
    return {namespace.hex(): name for namespace, name in known.items()}
