"""Running a load, and removing what it left, however it ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from time import perf_counter
from typing import Any

from kvtier.cli.bench.caller import Caller
from kvtier.cli.bench.measured import Measured
from kvtier.cli.bench.plan import Plan
from kvtier.cli.connect import connected
from kvtier.cli.exit import CommandError, told_by
from kvtier.cli.hashing import HASH_WIDTH
from kvtier.cli.options import Settings
from kvtier.client import (
    DeniedError,
    ExhaustedError,
    FailedPreconditionError,
    NodeClient,
    NotFoundError,
    UnimplementedError,
)
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.namespaces import fingerprint

_REFUSALS = (DeniedError, ExhaustedError, FailedPreconditionError, UnimplementedError)


def bench_namespace(name: str, block_bytes: int) -> Namespace:
    """Return the description of a load's own namespace."""
    return Namespace(
        name=name,
        model="kvtier-bench",
        dtype="uint8",
        layout="opaque",
        tokens_per_block=16,
        block_bytes=[block_bytes],
        tp_size=1,
        pp_size=1,
        hash_algorithm="blake2b",
        hash_width=HASH_WIDTH,
    )


async def bench(settings: Settings, plan: Plan, name: str) -> list[dict[str, Any]]:
    """Run a load on the only node that the settings name, and return its records.

    Args:
        settings: The node, and how to connect.
        plan: What to do.
        name: The name of the load's own namespace, which no other has.

    Raises:
        CommandError: When a call fails, a block comes back changed, or something may be left.
    """
    endpoint, measured = settings.one_endpoint(), Measured()
    description = bench_namespace(name, plan.block_bytes)
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(connected(endpoint, settings))
            for _ in range(plan.callers)
        ]
        async with _registered(clients[0], description) as namespace:
            start = perf_counter()
            callers = [Caller(client, plan, namespace, measured) for client in clients]
            await _all(callers, start + plan.seconds)
            return measured.records(perf_counter() - start)


async def _all(callers: list[Caller], end: float) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for caller in callers:
                group.create_task(caller.work(end))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


@asynccontextmanager
async def _registered(client: NodeClient, description: Namespace) -> AsyncIterator[bytes]:
    """Give the fingerprint of a namespace that is deleted with its blocks on every way out."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_delete, client, description)
        try:
            # Also a registration whose answer nobody waited for is taken back.
            await client.register_namespace(description)
        except _REFUSALS:
            stack.pop_all()
            raise
        yield fingerprint(description)


async def _delete(client: NodeClient, description: Namespace) -> None:
    try:
        with told_by(client.endpoint), suppress(NotFoundError):
            await client.delete_namespace(fingerprint(description), force=True)
    except CommandError as error:
        todo = f"remove it: kvtier delete-namespace --force {description.name}"
        what = f"namespace {description.name} may be left: {error.what}"
        raise CommandError(client.endpoint, what, todo, code=error.code) from error
