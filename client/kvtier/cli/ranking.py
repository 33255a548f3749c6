"""Which node is the best place for a chain, as `kvtier lookup --all-nodes` shows it."""

from collections.abc import Mapping, Sequence

import click

from kvtier.cli.connect import Answer, NamedNamespace, ask_all, find_namespace
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.keys import Keys
from kvtier.cli.options import Settings
from kvtier.cli.output import Column, Record
from kvtier.cli.output.colour import BAD, DOUBTFUL, tones
from kvtier.cli.output.messages import word
from kvtier.cli.position import position_text
from kvtier.cli.survey import survey
from kvtier.client import BlockIndex, Chain, Placement, Quality, rank_nodes
from kvtier.v1.block_pb2 import Medium

MEDIA = {word(name, "MEDIUM_"): value for name, value in Medium.items() if value}
WEIGHTS: Mapping[Medium.ValueType, float] = {
    Medium.MEDIUM_GPU: 1.0,
    Medium.MEDIUM_CPU: 0.5,
    Medium.MEDIUM_FS: 0.25,
    Medium.MEDIUM_OBJ: 0.125,
}


def _length(length: int | None) -> str:
    return "unknown" if length is None else str(length)


def _by_tier(record: Record) -> str:
    return ", ".join(
        f"{tier} {_length(length)}{' (recovering)' if tier in record['recovering'] else ''}"
        for tier, length in record["prefix_lengths"].items()
    )


def _by_medium(record: Record) -> str:
    held = record["best_copies"].items()
    return ", ".join(f"{word(name, 'MEDIUM_')} {blocks}" for name, blocks in held if blocks)


COLUMNS = (
    Column("NODE", lambda r: r["node_id"]),
    Column(
        "QUALITY",
        lambda r: word(r["quality"], ""),
        tone=tones({"STALE": DOUBTFUL, "UNKNOWN": BAD}, "quality"),
    ),
    Column("CHAIN", lambda r: str(r["chain_length"]), right=True),
    Column("PREFIX", lambda r: _length(r["union_prefix_length"]), right=True),
    Column("SCORE", lambda r: f"{r['score']:g}", right=True),
    Column("BY TIER", _by_tier),
    Column("BEST COPIES", _by_medium, wide=True),
    Column("POSITION", lambda r: r["position"] or "", wide=True),
)


def weight_of(
    text: str | tuple[Medium.ValueType, float],
) -> tuple[Medium.ValueType, float]:
    """Return the medium that an option names, and what a block on it is worth.

    Raises:
        click.BadParameter: When it is not MEDIUM=NUMBER, with a number of at least 0.
    """
    if isinstance(text, tuple):
        return text
    medium, _, number = text.partition("=")
    try:
        weight = float(number)
    except ValueError:
        weight = -1.0
    if medium not in MEDIA or not 0 <= weight < float("inf"):
        raise click.BadParameter(
            f"{text!r} is no weight; write MEDIUM=NUMBER, such as fs=0.25, with a medium of "
            f"{', '.join(MEDIA)} and a number of at least 0"
        )
    return MEDIA[medium], weight


async def rank(
    settings: Settings, keys: Keys, weights: Mapping[Medium.ValueType, float]
) -> tuple[list[Record], list[CommandError]]:
    """Return what each node holds of a chain, the best place first, and who is missing.

    A node that has not registered the namespace holds nothing of it.

    Raises:
        CommandError: When two nodes have different namespaces of that name.
    """
    answers = await ask_all(settings, lambda client: find_namespace(client, keys.namespace))
    errors = {answer.endpoint: answer.error for answer in answers if answer.error is not None}
    namespace = _the_one(keys.namespace, answers)
    if namespace is None:
        return [], list(errors.values())
    _require_known(keys, namespace)
    without = {e for e, error in errors.items() if error.code is ExitCode.NOT_FOUND}
    lost = {e: error for e, error in errors.items() if e not in without}
    reached = [endpoint for endpoint in settings.endpoints if endpoint not in lost]
    index, late = await survey(settings, reached, namespace.fingerprint)
    lost |= late
    chain = Chain(keys.group, keys.scope, keys.hashes)
    ranked = rank_nodes(index, namespace.fingerprint, [chain], weights)
    return (
        [_record(index, keys, placement) for placement in ranked],
        [lost[endpoint] for endpoint in settings.endpoints if endpoint in lost],
    )


def _require_known(keys: Keys, namespace: NamedNamespace) -> None:
    """Raise CommandError when a namespace can have no such blocks."""
    keys.packed(namespace.hash_width)
    groups = len(namespace.description.block_bytes)
    if keys.group >= groups:
        what = f"group {keys.group} does not exist"
        todo = f"namespace {keys.namespace!r} has groups 0 to {groups - 1}"
        raise CommandError("kvtier", what, todo, code=ExitCode.USAGE)


def _the_one(name: str, answers: Sequence[Answer[NamedNamespace]]) -> NamedNamespace | None:
    """Return the namespace that every node which has one of that name has."""
    found = {a.value.fingerprint: a for a in answers if a.value is not None}
    if len(found) > 1:
        one, other, *_ = (answer.endpoint for answer in found.values())
        what = f"namespace {name!r} is another one at {one} than at {other}"
        todo = "name nodes that agree; kvtier get namespaces shows what differs"
        raise CommandError("kvtier", what, todo)
    return next((answer.value for answer in found.values()), None)


def _record(index: BlockIndex, keys: Keys, placement: Placement) -> Record:
    (held,) = placement.chains
    known = placement.quality is not Quality.UNKNOWN
    node, position = placement.node, placement.position
    tiers = index.tiers(node) if known else []
    # Of a silent tier nothing is known, however well the node is.
    lengths = {
        tier: None if index.quality(node, tier) is Quality.UNKNOWN else held.tiers.get(tier, 0)
        for tier in tiers
    }
    return {
        "node_id": node,
        "quality": placement.quality.value,
        "chain_length": len(keys.hashes),
        "union_prefix_length": held.reach if known else None,
        "score": placement.score,
        "prefix_lengths": lengths,
        "recovering": index.recovering(node),
        "best_copies": {Medium.Name(medium): blocks for medium, blocks in held.media.items()},
        "position": position_text(position.epoch, position.sequence) if position else None,
    }
