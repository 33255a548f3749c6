"""`kvtier load`."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from kvtier.cli.connect import connected, find_namespace
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.keys import Keys, hash_arguments, place_options, read_hashes
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column, Record, printing
from kvtier.cli.output.names import block_name
from kvtier.cli.run import run
from kvtier.cli.tiers import recovering_text
from kvtier.client import NodeClient
from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.event_service_pb2 import TierState
from kvtier.v1.result_pb2 import ReadResult
from kvtier.wire.sizes import format_size

_COLUMNS = (
    Column("TIER", lambda r: r["tier"]),
    Column("SIZE", lambda r: format_size(r["size_bytes"]), right=True),
    Column("HASH", lambda r: r["block_hash"]),
)


class _Loaded(NamedTuple):
    block_hash: bytes
    tier: str
    data: bytes


_Refused = dict[ReadResult.ValueType, dict[bytes, str]]


@click.command()
@hash_arguments
@place_options
@click.option("--tier", help="Only from this tier; from the fastest that has it by default.")
@click.option(
    "--to",
    "target",
    type=click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path),
    default="-",
    help="Write to this file; stdout by default.",
)
@common_options
@pass_settings
def command(
    settings: Settings,
    /,
    *,
    hashes: tuple[bytes, ...],
    file: Path | None,
    tier: str | None,
    target: Path,
    **place: Any,
) -> None:
    """Read blocks into a file or stdout.

    Their bytes are written one after the other. Nothing is written unless every block is there;
    otherwise the exit code is 3, or 1 when a later try may bring it: a tier cannot read it now, or
    is recovering. With --to, what was loaded from where is listed on stdout.
    """
    keys = Keys(**place, hashes=read_hashes(hashes, file))
    to_stdout = str(target) == "-"
    if to_stdout and sys.stdout.isatty():
        raise click.UsageError("blocks are binary; name a file with --to, or use a pipe")
    loaded = run(_load(settings, keys, tier))
    data = b"".join(block.data for block in loaded)
    if to_stdout:
        sys.stdout.buffer.write(data)
        return
    target.write_bytes(data)
    with printing(settings, _COLUMNS, block_name) as printer:
        printer.write([_record(block) for block in loaded])


def _record(block: _Loaded) -> Record:
    return {
        "tier": block.tier,
        "block_hash": block.block_hash.hex(),
        "size_bytes": len(block.data),
    }


async def _load(settings: Settings, keys: Keys, tier: str | None) -> list[_Loaded]:
    async with connected(settings.one_endpoint(), settings) as client:
        namespace = await find_namespace(client, keys.namespace)
        keys.packed(namespace.hash_width)
        tiers = [tier] if tier else [t.name for t in await client.list_tiers()]
        found, refused = await _search(client, tiers, namespace.fingerprint, keys)
        missing = [h for h in keys.hashes if h not in found]
        if missing:
            recovering = {
                t.name: t.state_reason
                for t in await client.list_tiers()
                if t.name in tiers and t.state == TierState.TIER_STATE_RECOVERING
            }
            raise _not_loaded(settings.one_endpoint(), missing, refused, recovering)
    return [found[h] for h in keys.hashes]


async def _search(
    client: NodeClient, tiers: Sequence[str], fingerprint: bytes, keys: Keys
) -> tuple[dict[bytes, _Loaded], _Refused]:
    """Return what was loaded, and why which tiers did not give blocks that they had."""
    found: dict[bytes, _Loaded] = {}
    refused: _Refused = {}
    for tier in tiers:
        wanted = [h for h in dict.fromkeys(keys.hashes) if h not in found]
        if not wanted:
            break
        blocks = BlockSet(group=keys.group, scope=keys.scope, block_hashes=b"".join(wanted))
        report = await client.load(tier, fingerprint, [blocks])
        answers = zip(wanted, report.payloads, report.results, strict=True)
        for block_hash, data, result in answers:
            if data is not None:
                found[block_hash] = _Loaded(block_hash, tier, data)
            elif result != ReadResult.READ_RESULT_MISS:
                refused.setdefault(result, {})[block_hash] = tier
    return found, refused


def _not_loaded(
    endpoint: str, missing: Sequence[bytes], refused: _Refused, recovering: Mapping[str, str]
) -> CommandError:
    """Return what to say of blocks that did not come: first of all what a later try may bring."""
    unread = refused.get(ReadResult.READ_RESULT_FAILED, {})
    failed = [h for h in missing if h in unread]
    if failed:
        what = f"tier {unread[failed[0]]} cannot read {len(failed)} blocks now: {failed[0].hex()}"
        return CommandError(endpoint, what, "see its state: kvtier get tiers", reason="FAILED")
    if recovering:
        what = f"{len(missing)} blocks were not found yet, such as {missing[0].hex()}"
        what += f": {recovering_text(recovering)}"
        return CommandError(endpoint, what, "try again when it is ready", reason="RETRY")
    damaged = refused.get(ReadResult.READ_RESULT_CORRUPT, {})
    dropped = [h for h in missing if h in damaged]
    if dropped:
        what = f"tier {damaged[dropped[0]]} found {len(dropped)} blocks damaged and dropped them"
        what += f": {dropped[0].hex()}"
        todo = "put them again"
        return CommandError(endpoint, what, todo, reason="CORRUPT", code=ExitCode.NOT_FOUND)
    what = f"{len(missing)} blocks are in none of these tiers, such as {missing[0].hex()}"
    return CommandError(endpoint, what, reason="MISS", code=ExitCode.NOT_FOUND)
