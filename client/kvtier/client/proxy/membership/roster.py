"""Keeping the secondaries of a proxy as a list of endpoints says."""

import logging
from collections.abc import AsyncIterator, Callable

from kvtier.client.node import NodeClient
from kvtier.client.proxy.following.members import Member, Members
from kvtier.client.proxy.membership.endpoints import Endpoints

_log = logging.getLogger("kvtier.client.proxy")


class Roster:
    """Lets secondaries join and leave as lists come; the primary is never one of them.

    Args:
        members: Whom the proxy follows.
        lists: Whole lists of the secondaries' endpoints, in order, such as `membership.dns`.
        connect: Makes the client of an endpoint; it is closed when the endpoint leaves.
    """

    def __init__(
        self,
        members: Members,
        lists: AsyncIterator[Endpoints],
        connect: Callable[[str], NodeClient],
    ) -> None:
        self._members = members
        self._lists = lists
        self._connect = connect
        self._mine: dict[str, Member] = {}

    async def run(self) -> None:
        """Follow the lists until they end; then the last one stays."""
        try:
            async for endpoints in self._lists:
                await self._settle(endpoints)
        except Exception:  # noqa: BLE001 - nobody waits for it: else nobody would hear of it
            _log.exception("the secondaries are not looked for any more; those known stay")

    async def close(self) -> None:
        """Close the clients; `run` must have ended."""
        for member in self._mine.values():
            await member.client.close()
        self._mine.clear()

    async def _settle(self, endpoints: Endpoints) -> None:
        wanted = [each for each in endpoints if each != self._members.primary.endpoint]
        for endpoint in self._mine.keys() - set(wanted):
            member = self._mine[endpoint]
            await self._members.remove(member)
            await member.client.close()
            # Not before: if this is cancelled, the client is closed at the end.
            del self._mine[endpoint]
        for endpoint in wanted:
            if endpoint not in self._mine:
                self._mine[endpoint] = await self._members.add(self._connect(endpoint))
        self._members.arrange(wanted)
