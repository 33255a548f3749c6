"""Callers that keep a node busy until it is gone, each with blocks of its own.

Run as a program, with an endpoint, the number of the first caller, how many there are, and a seed,
it prints `at work`, and at the end as JSON what was confirmed: the blocks that are stored, those
that are deleted, and how often what was done.
"""

import asyncio
import json
import random
import sys
from collections import Counter
from functools import cache

from kvtier.client import AbortedError, ExhaustedError, NodeClient, UnavailableError
from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.result_pb2 import DeleteResult, LookupResult, StoreOutcome, WriteResult
from kvtier.wire.namespaces import fingerprint
from tests.contract.support import blocks_of, namespace, payload, run

FILES, MEMORY = "fs0", "cpu0"
# The last one is moved through memory only.
SIZES = [4096, 65_536, 1 << 20, 4 << 20]
NAMESPACE = namespace("load", block_bytes=SIZES)
FINGERPRINT = fingerprint(NAMESPACE)
OWN, BULK = 9, 3
_PAUSE = 0.02
_GONE = {DeleteResult.DELETE_RESULT_DELETED, DeleteResult.DELETE_RESULT_NOT_FOUND}


def group_of(name: int) -> int:
    return name % BULK


@cache
def content(name: int) -> bytes:
    """The bytes of a block of files."""
    return payload(name, SIZES[group_of(name)])


def sets_of(names: list[int]) -> list[BlockSet]:
    """Return what to ask for; the blocks are numbered as the names are."""
    return [blocks_of(name, group=group_of(name)) for name in names]


class Caller:
    """One client.

    Args:
        client: Its connection.
        number: Which of all callers it is.
        dice: What it does next.
        tally: Counts what was done.

    Attributes:
        stored: Its blocks of which it was told that they are stored.
        gone: Those of which it was told that they are not.
    """

    def __init__(
        self, client: NodeClient, number: int, dice: random.Random, tally: Counter[str]
    ) -> None:
        own = range(number * OWN, (number + 1) * OWN)
        self.stored: set[int] = set()
        self.gone: set[int] = set(own)
        self._client, self._dice, self._tally = client, dice, tally
        self._bulk = payload(("bulk", number), SIZES[BULK])
        self._name = ("bulk", number)

    async def work(self) -> None:
        """Go on until the node takes no work any more."""
        acts = [self._store, self._store, self._load, self._look_up, self._delete, self._move]
        while True:
            try:
                await self._dice.choice(acts)()
            except ExhaustedError:
                self._tally["refused"] += 1
            except AbortedError:
                self._tally["aborted"] += 1
            except UnavailableError as error:
                self._tally[f"ended by {error.reason or 'a broken connection'}"] += 1
                return
            await asyncio.sleep(_PAUSE)

    async def _store(self) -> None:
        for name in self._some(self.gone):
            self.gone.discard(name)
            report = await self._client.store(
                FILES, FINGERPRINT, [run(name, group=group_of(name))], [content(name)]
            )
            (outcome,), (result,) = report.outcomes, report.results
            if result == WriteResult.WRITE_RESULT_STORED:
                self.stored.add(name)
                self._tally["stored"] += 1
            else:
                assert outcome != StoreOutcome.STORE_OUTCOME_PRESENT, "it was deleted"

    async def _load(self) -> None:
        names = self._some(self.stored)
        if names:
            report = await self._client.load(FILES, FINGERPRINT, sets_of(names))
            assert list(report.payloads) == [content(name) for name in names]
            self._tally["loaded"] += 1

    async def _look_up(self) -> None:
        names = self._some(self.stored)
        for name in names:
            chain = blocks_of(name, group=group_of(name))
            answer = await self._client.lookup(FINGERPRINT, [chain], include_blocks=True)
            assert list(answer.chains[0].results) == [LookupResult.LOOKUP_RESULT_HIT]
            self._tally["looked up"] += 1

    async def _delete(self) -> None:
        names = self._some(self.stored)[:1]
        self.stored.difference_update(names)
        if names:
            answer = await self._client.delete(FINGERPRINT, sets_of(names))
            results = {result for tier in answer.tiers for result in tier.results}
            if results <= _GONE:
                self.gone.update(names)
                self._tally["deleted"] += 1

    async def _move(self) -> None:
        """Store and load a large block by memory."""
        await self._client.store(MEMORY, FINGERPRINT, [run(self._name, group=BULK)], [self._bulk])
        report = await self._client.load(MEMORY, FINGERPRINT, [blocks_of(self._name, group=BULK)])
        (moved,) = report.payloads
        assert moved is None or moved == self._bulk
        self._tally["moved"] += moved is not None

    def _some(self, names: set[int]) -> list[int]:
        return self._dice.sample(sorted(names), min(len(names), self._dice.randint(1, 3)))


async def _main(endpoint: str, first: int, number: int, seed: int) -> None:
    tally: Counter[str] = Counter()
    clients = [NodeClient(endpoint, timeout=60) for _ in range(number)]
    callers = [
        Caller(client, first + place, random.Random(seed + first + place), tally)
        for place, client in enumerate(clients)
    ]
    await clients[0].register_namespace(NAMESPACE)
    sys.stdout.write("at work\n")
    sys.stdout.flush()
    await asyncio.gather(*(caller.work() for caller in callers))
    await asyncio.gather(*(client.close() for client in clients))
    told = {
        "stored": sorted(name for caller in callers for name in caller.stored),
        "gone": sorted(name for caller in callers for name in caller.gone),
        "tally": tally,
    }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], *map(int, sys.argv[2:])))
