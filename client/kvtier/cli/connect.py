"""Speaking to nodes: one, or all that are named."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Generic, NamedTuple, TypeVar

from kvtier.cli.exit import CommandError, ExitCode, report, told_by
from kvtier.cli.options import Settings
from kvtier.client import CredentialsError, NodeClient
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.namespaces import fingerprint

T = TypeVar("T")


class Answer(NamedTuple, Generic[T]):
    """What one node answered: a value, or why there is none."""

    endpoint: str
    value: T | None
    error: CommandError | None


class NamedNamespace(NamedTuple):
    """A registered namespace, and its fingerprint."""

    fingerprint: bytes
    description: Namespace

    @property
    def hash_width(self) -> int:
        """Bytes of each of its hashes."""
        return self.description.hash_width


@asynccontextmanager
async def connected(endpoint: str, settings: Settings) -> AsyncIterator[NodeClient]:
    """Give a client of a node; errors of its calls become command errors that name it."""
    credentials = settings.credentials
    with told_by(endpoint, verbose=settings.verbose):
        try:
            client = NodeClient(endpoint, timeout=settings.timeout, credentials=credentials)
        except CredentialsError as error:
            raise CommandError("kvtier", str(error), code=ExitCode.USAGE) from None
        async with client:
            yield client


async def ask_all(
    settings: Settings, question: Callable[[NodeClient], Awaitable[T]]
) -> list[Answer[T]]:
    """Ask every named node at once; one that fails does not hold back the others' answers.

    Raises:
        CommandError: When the question itself is malformed.
    """

    async def ask(endpoint: str) -> Answer[T]:
        try:
            async with connected(endpoint, settings) as client:
                return Answer(endpoint, await question(client), None)
        except CommandError as error:
            if error.code is ExitCode.USAGE:
                raise
            return Answer(endpoint, None, error)

    return await asyncio.gather(*(ask(endpoint) for endpoint in settings.endpoints))


def raise_first(errors: Iterable[CommandError | None]) -> None:
    """Raise the first of some errors, and report the others, after the good answers are out."""
    failures = [error for error in errors if error is not None]
    for error in failures[1:]:
        report(error)
    if failures:
        raise failures[0]


async def namespaces_by_name(client: NodeClient) -> dict[str, NamedNamespace]:
    """Return the namespaces that a node has registered."""
    known = await client.list_namespaces()
    return {each.name: NamedNamespace(fingerprint(each), each) for each in known}


async def find_namespace(client: NodeClient, name: str) -> NamedNamespace:
    """Return the namespace that a node has registered under a name.

    Raises:
        CommandError: When it has none of that name.
    """
    known = await namespaces_by_name(client)
    if name in known:
        return known[name]
    names = ", ".join(list(known)[:5])
    more = f" and {len(known) - 5} more" if len(known) > 5 else ""
    todo = f"it has {names}{more}" if known else "it has none yet; kvtier put can register one"
    raise CommandError(
        client.endpoint,
        f"namespace {name!r} is not registered",
        todo,
        reason="NAMESPACE_UNKNOWN",
        code=ExitCode.NOT_FOUND,
    )
